/** What the service answers, as far as the page shows it. */

export type Verdict = "accept" | "fallback" | "abstain";
export type Sensitivity = "public" | "internal" | "pii" | "safety_critical";
export type RouteKind = "tools" | "knowledge" | "both" | "none" | "general";
export type Legs = Readonly<Record<string, number>>;
export type Counts = Readonly<Record<string, number>>;

export const SENSITIVITIES: readonly Sensitivity[] = [
  "public",
  "internal",
  "pii",
  "safety_critical",
];
export const ROUTES: readonly RouteKind[] = ["tools", "knowledge", "both", "general", "none"];

export interface Scope {
  servers?: readonly string[] | null;
  tags?: readonly string[] | null;
  categories?: readonly string[] | null;
  without_safety_tags?: readonly string[];
  max_sensitivity?: Sensitivity | null;
  collections?: readonly string[] | null;
}

export interface Me {
  name: string;
  access: "read" | "write";
  namespaces: readonly string[];
  namespace: string;
  scope: Scope;
}

export interface Ready {
  status: string;
  engine?: string;
  tools?: number;
  encoder?: string;
}

export interface Hit {
  id: string;
  name: string;
  server: string;
  score: number;
  probability: number | null;
  rank: number;
  description: string;
  legs?: Legs;
}

export interface Found {
  query: string;
  tools: readonly Hit[];
  confidence: number | null;
  verdict: Verdict;
  reason: string;
  threshold: number | null;
  fallback: boolean;
  took_ms: Counts;
  degraded: readonly string[];
  unmatched_terms?: readonly string[];
}

export interface Entity {
  type: string;
  text: string;
  start: number;
  end: number;
}

export interface Context {
  intent: string | null;
  domain: string | null;
  entities: readonly Entity[];
  urgency: string;
  sensitivity: Sensitivity;
  language: string | null;
  smalltalk: string | null;
  need: string | null;
  confidence: number;
  confidences: Counts;
  signals: readonly string[];
}

export interface Route {
  kind: RouteKind;
  reason: string;
  confidence: number | null;
  corrected_from: RouteKind | null;
}

export interface PassageHit {
  id: string;
  collection: string;
  score: number;
  citation: string;
  title: readonly string[];
  source: string;
  position: number;
  text: string;
}

export interface Asked {
  id: string;
  confidence: number;
}

export interface Knowledge {
  verdict: Verdict;
  confidence: number | null;
  fit: number | null;
  reason: string;
  threshold: number | null;
  collections: readonly Asked[];
  passages: readonly PassageHit[];
}

export interface Decision {
  id: string;
  context: Context;
  route: Route;
  tools: {
    verdict: Verdict;
    confidence: number | null;
    reason: string;
    threshold: number | null;
    fallback: boolean;
    items: readonly Hit[];
  };
  knowledge: Knowledge;
  signals: readonly string[];
  took_ms: Counts;
  degraded: readonly string[];
  max_tool_calls: number;
  tool_timeout_s: number;
}

/** A logged decision: without the user's words, unless the service keeps them (`text`). */
export interface DecisionRecord {
  id: string;
  at: string;
  by?: string;
  route: { kind: RouteKind; confidence: number | null; corrected_from: RouteKind | null };
  context: {
    intent: string | null;
    domain: string | null;
    urgency: string;
    sensitivity: Sensitivity;
    language: string | null;
    smalltalk: string | null;
    need: string | null;
    confidence: number;
    confidences: Counts;
    entities: readonly string[];
  };
  tools: {
    verdict: Verdict;
    confidence: number | null;
    threshold: number | null;
    fallback: boolean;
    items: readonly { id: string; score: number; probability: number | null }[];
  };
  knowledge: {
    verdict: Verdict;
    confidence: number | null;
    threshold: number | null;
    collections: readonly Asked[];
    passages: readonly { id: string; score: number }[];
  };
  signals: readonly string[];
  took_ms: Counts;
  degraded: readonly string[];
  text?: { turn: string; search: string; reasons: Readonly<Record<string, string>> };
}

export interface FeedbackFields {
  route?: RouteKind;
  tools?: readonly string[];
  collections?: readonly string[];
  intent?: string;
  domain?: string;
  outcome?: "success" | "failure";
  note?: string;
}

export interface FeedbackRecord extends FeedbackFields {
  at: string;
}

export interface OutcomeRecord {
  at: string;
  tool: string;
  outcome: string;
  took_ms?: number;
}

export interface DecisionPage {
  decision: DecisionRecord;
  feedback: readonly FeedbackRecord[];
  outcomes: readonly OutcomeRecord[];
}

export interface Spec {
  id: string;
  name: string;
  server: string;
  description: string;
  input_schema: Readonly<Record<string, unknown>>;
  output_schema: Readonly<Record<string, unknown>>;
  success_examples: readonly string[];
  anti_patterns: readonly string[];
  cost_estimate: number | null;
  avg_latency_ms: number | null;
  safety_tags: readonly string[];
  sensitivity: Sensitivity;
  category: string;
  tags: readonly string[];
  annotations: Readonly<Record<string, unknown>>;
  requires: readonly string[];
  provides: readonly string[];
  always_active: boolean;
  enabled: boolean;
  version: string;
}

export interface Facets {
  tools: number;
  servers: Counts;
  tags: Counts;
  categories: Counts;
  sensitivities: Counts;
}

export interface Finding {
  severity: "info" | "warning" | "block";
  rule: string;
  tool: string;
  place: string;
  excerpt: string;
  why: string;
}

export interface Held {
  tool_id: string;
  server: string;
  digest: string;
  was_digest: string | null;
  reason: string;
  findings: readonly Finding[];
  since: string | number;
  spec: Spec;
}

export interface Collection {
  name: string;
  description: string;
  examples: readonly string[];
  answers: readonly (readonly [string, string])[];
  sensitivity: Sensitivity;
  priority: number;
  fallback: boolean;
  passages: number;
}

export interface Report {
  name: string;
  modified: string | number;
  bytes: number;
}
