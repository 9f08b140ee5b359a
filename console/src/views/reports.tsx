/** Evaluation reports: which there are, and one of them in a frame that runs nothing. */

import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { call, callText } from "../api/call";
import type { Report } from "../api/types";
import { Framed } from "../parts/framed";
import { TroubleNote } from "../parts/trouble";
import { Untrusted } from "../parts/untrusted";
import { Waiting } from "../parts/waiting";
import { useAnswer } from "../state/answers";
import { walk } from "../state/arrows";
import { adjust, link, place } from "../state/place";
import { asked } from "../state/session";
import { onEscape } from "../state/shortcuts";
import { bytes, when } from "../words/figures";
import { Command } from "./empty";

export function Reports(): VNode {
  const name = place.value.params.get("report");
  return name === null ? <List /> : <One key={name} name={name} />;
}

function List(): VNode {
  const { value, trouble, again } = useAnswer(
    (signal) => call<{ reports: Report[] }>("v1/reports", { signal }),
    [asked.value],
  );
  return (
    <>
      <h1>Reports</h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value?.reports.length === 0 && <NoReports />}
      {value !== undefined && value.reports.length > 0 && (
        <ul class="records" onKeyDown={walk} aria-label="Reports">
          {value.reports.map((report) => (
            <li key={report.name}>
              <a class="record file" data-stop href={link("reports", { report: report.name })}>
                <b class="record-route">
                  <Untrusted text={report.name} />
                </b>
                <time>{when(report.modified)}</time>
                <span class="figure took">{bytes(report.bytes)}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function NoReports(): VNode {
  return (
    <section class="empty">
      <h2>There are no reports</h2>
      <p>
        Reports are the HTML files in the folder that the setting <code>service.reports</code>{" "}
        names; keys without limits see them, in the default namespace. An evaluation or a log of
        decisions writes one:
      </p>
      <Command text="toolcrib eval DATA --report reports/evaluation.html" />
      <Command text="toolcrib report decisions.jsonl --html reports/decisions.html" />
    </section>
  );
}

const back = (): void => adjust({ report: undefined });

function One({ name }: { name: string }): VNode {
  const path = `v1/reports/${encodeURIComponent(name)}`;
  const { value, trouble, again } = useAnswer(
    (signal) => callText(path, { signal }),
    [asked.value, name],
  );
  useEffect(() => onEscape(back), []);
  return (
    <article class="report">
      <p>
        <button type="button" class="quiet back" onClick={back}>
          ← Reports
        </button>
      </p>
      <h1>
        <Untrusted text={name} />
      </h1>
      {trouble && <TroubleNote trouble={trouble} again={again} />}
      {value === undefined && !trouble && <Waiting what="Reading" />}
      {value !== undefined && <Framed html={value} title={`Report ${name}`} />}
    </article>
  );
}
