/** Builds the page into the Python package: bundled, minified, named by content.

    node build.mjs [FOLDER]

Everything that the page needs is in the folder afterwards, with the licences of what is bundled
and the digest of the sources, by which a test knows whether the folder is up to date. */

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = resolve(process.argv[2] ?? join(HERE, "../toolcrib/http/console/static"));
const SOURCES = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", "src"];

const COMMON = {
  absWorkingDir: HERE,
  outdir: OUT,
  entryNames: "[name]-[hash]",
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
};
const app = await build({
  ...COMMON,
  entryPoints: { app: "src/main.tsx" },
  splitting: true,
  chunkNames: "[name]-[hash]",
  jsx: "transform",
  jsxFactory: "h",
  jsxFragment: "Fragment",
  inject: ["src/jsx.ts"],
});
const look = await build({ ...COMMON, entryPoints: { look: "src/look.ts" }, format: "iife" });
const outputFiles = [...app.outputFiles, ...look.outputFiles];

rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
for (const file of outputFiles) writeFileSync(file.path, file.contents);

const named = (start, end) => {
  const names = outputFiles.map((file) => relative(OUT, file.path));
  return names.find((name) => name.startsWith(start) && name.endsWith(end));
};
const icon = readFileSync(join(HERE, "src/icon.svg"));
const iconName = `icon-${digest(icon).slice(0, 8).toUpperCase()}.svg`;
writeFileSync(join(OUT, iconName), icon);

const page = readFileSync(join(HERE, "src/index.html"), "utf8")
  .replace("{{style}}", named("app-", ".css"))
  .replace("{{script}}", named("app-", ".js"))
  .replace("{{look}}", named("look-", ".js"))
  .replace("{{icon}}", iconName);
writeFileSync(join(OUT, "index.html"), page);

const packages = bundled(Object.keys(app.metafile.inputs));
writeFileSync(join(OUT, "LICENSES.txt"), packages.map(licence).join("\n"));
const about = {
  sources: sourcesDigest(),
  packages: Object.fromEntries(packages.map(({ name, version }) => [name, version])),
};
writeFileSync(join(OUT, "build.json"), `${JSON.stringify(about, null, 2)}\n`);

function digest(content) {
  return createHash("sha256").update(content).digest("hex");
}

/** One digest over names and contents of all sources, in the order of their names. */
function sourcesDigest() {
  const files = SOURCES.flatMap((name) => filesIn(join(HERE, name)))
    .map((path) => relative(HERE, path).split(sep).join("/"))
    .sort();
  const lines = files.map((name) => `${digest(readFileSync(join(HERE, name)))}  ${name}\n`);
  return digest(lines.join(""));
}

function filesIn(path) {
  try {
    return readdirSync(path).flatMap((name) => filesIn(join(path, name)));
  } catch {
    return [path];
  }
}

/** The packages of which anything is in the bundle. */
function bundled(inputs) {
  const names = inputs
    .map((path) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
    .filter(Boolean);
  return [...new Set(names)].sort().map((name) => {
    const folder = join(HERE, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((each) => /^licen[sc]e/i.test(each));
    if (!file) throw new Error(`${name} ${version} comes without the text of its licence`);
    return { name, version, license, text: readFileSync(join(folder, file), "utf8").trim() };
  });
}

function licence({ name, version, license, text }) {
  const head = `${name} ${version} (${license})`;
  return `${head}\n${"=".repeat(head.length)}\n\n${text}\n`;
}
