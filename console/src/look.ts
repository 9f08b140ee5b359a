/** Runs before anything is painted, so that a chosen look does not flash by in the other one. */

import { kept } from "./state/kept";

const chosen = kept("local", "toolcrib.look");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset["look"] = chosen;
