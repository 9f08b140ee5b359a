/** Views whose code is loaded when one of them is first shown. */

export { Activity } from "./activity";
export { Collections } from "./collections";
export { Keys } from "./keys";
export { Learning } from "./learning";
export { Quarantine } from "./quarantine";
export { Reports } from "./reports";
export { Servers } from "./servers";
