/** What the service takes and answers. Written by scripts/typescript_types.py; do not edit. */

export interface AddedServers {
  added: readonly string[];
  same: readonly string[];
  variables: Readonly<Record<string, readonly string[]>>;
  notes: readonly string[];
}

export interface AgentDecision {
  target: string;
  confidence: number;
  reason: string;
  tables: readonly string[];
  columns: readonly string[];
  signals: readonly string[];
  thread_id: string | null;
}

export interface AgentRecord {
  target: string;
  confidence: number;
  signals: readonly string[];
}

export interface Alive {
  status: "ok";
}

export interface AllJson {
  all: readonly (EqualsJson | AnyOfJson | RangeJson | NotJson | AllJson | AnyJson)[];
}

export interface Alternates {
  tools: readonly ToolHit[];
}

export interface AlternatesBody {
  failed_tool: string;
  turn: TurnBody | string;
  decision_id?: string | null;
  k?: number;
  shape?: "summary" | "full";
}

export interface AnyJson {
  any: readonly (EqualsJson | AnyOfJson | RangeJson | NotJson | AllJson | AnyJson)[];
}

export interface AnyOfJson {
  field: "always_active" | "category" | "collection" | "deprecated" | "document" | "enabled" | "kind" | "name_key" | "provides" | "requires" | "safety_tags" | "sensitivity" | "server" | "tags" | "version";
  any_of: readonly (string | boolean)[];
}

export interface Bounds {
  gt?: number | null;
  gte?: number | null;
  lt?: number | null;
  lte?: number | null;
}

export interface CapabilitiesBody {
  text?: string;
  history?: readonly MessageBody[];
  attachments?: readonly unknown[] | null;
  metadata?: Readonly<Record<string, unknown>>;
  scope?: ScopeInput | null;
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  needs?: readonly string[];
  trajectory?: readonly (Readonly<Record<string, unknown>>)[];
  step?: string | null;
  thread_id?: string | null;
  unreadable?: number;
  bypass?: boolean | null;
  state?: LoopState | null;
}

export interface CapabilitySelection {
  active: readonly string[];
  probabilities: Readonly<Record<string, number>>;
  failed: readonly FailedCapability[];
  bypassed: boolean;
  reclassifications: number;
  signals: readonly string[];
  degraded: readonly string[];
  next: string;
  id?: string;
}

export interface CheckBody {
  ids: readonly string[];
  scope?: ScopeInput | null;
}

export interface CheckedTools {
  tools: readonly ToolReadiness[];
}

export interface Classification {
  branch: string | null;
  matched: boolean;
  confidence: number | null;
  degraded: readonly string[];
  skipped?: boolean;
  id?: string;
}

export interface ClassifyBody {
  text?: string;
  history?: readonly MessageBody[];
  attachments?: readonly unknown[] | null;
  metadata?: Readonly<Record<string, unknown>>;
  scope?: ScopeInput | null;
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  needs?: readonly string[];
  trajectory?: readonly (Readonly<Record<string, unknown>>)[];
  step?: string | null;
  thread_id?: string | null;
  unreadable?: number;
  question: string;
  variables?: Readonly<Record<string, unknown>>;
  outputs?: Readonly<Record<string, unknown>>;
}

export interface CollectionBody {
  name: string;
  description?: string;
  examples?: readonly string[];
  answers?: readonly (readonly string[])[];
  sensitivity?: "public" | "internal" | "pii" | "safety_critical";
  priority?: number;
  fallback?: boolean;
}

export interface CollectionHit {
  id: string;
  confidence: number;
}

export interface CollectionList {
  collections: readonly CountedCollection[];
}

export interface CollectionsBody {
  collections: readonly CollectionBody[];
}

export interface ConfiguredServer {
  name: string;
  target: string;
  state: "on" | "off" | "unusable";
  problem: string;
  variables?: readonly string[];
}

export interface ContextInput {
  text?: string;
  intent?: string | null;
  domain?: string | null;
  urgency?: string;
  sensitivity?: "public" | "internal" | "pii" | "safety_critical";
  entities?: readonly Entity[];
  language?: string | null;
  smalltalk?: string | null;
  need?: string | null;
  confidences?: Readonly<Record<string, number>>;
  confidence?: number;
  signals?: readonly string[];
  needs?: Readonly<Record<string, number>>;
}

export interface Context {
  intent: string | null;
  domain: string | null;
  urgency: string;
  sensitivity: "public" | "internal" | "pii" | "safety_critical";
  entities: readonly Entity[];
  language: string | null;
  smalltalk: string | null;
  need: string | null;
  confidences: Readonly<Record<string, number>>;
  confidence: number;
  signals: readonly string[];
  needs?: Readonly<Record<string, number>>;
}

export interface ContextRecord {
  intent: string | null;
  domain: string | null;
  urgency: string;
  sensitivity: "public" | "internal" | "pii" | "safety_critical";
  language: string | null;
  smalltalk: string | null;
  need: string | null;
  confidence: number;
  confidences: Readonly<Record<string, number>>;
  entities: readonly string[];
}

export interface CountedCollection {
  name: string;
  description: string;
  examples: readonly string[];
  answers: readonly (readonly [string, string])[];
  sensitivity: "public" | "internal" | "pii" | "safety_critical";
  priority: number;
  fallback: boolean;
  passages: number;
}

export interface DecisionHistory {
  decision: DecisionRecord;
  feedback: readonly FeedbackRecord[];
  outcomes: readonly OutcomeRecord[];
}

export interface DecisionPage {
  decisions: readonly DecisionRecord[];
  next: string | null;
  feedback?: readonly FeedbackRecord[];
  outcomes?: readonly OutcomeRecord[];
}

export interface DecisionRecord {
  id: string;
  at: string;
  route: RouteRecord;
  context: ContextRecord;
  tools: ToolsRecord;
  knowledge: KnowledgeRecord;
  signals: readonly string[];
  took_ms: Readonly<Record<string, number>>;
  degraded: readonly string[];
  usage?: readonly ModelUsage[];
  agent?: AgentRecord;
  guidance?: readonly string[];
  text?: TextRecord;
  by?: string;
  kind: "decision";
}

export interface DocumentBody {
  name: string;
  text?: string;
  base64?: string;
}

export interface DocumentsBody {
  collection: string;
  documents?: readonly DocumentBody[];
  passages?: readonly PassageBody[];
  prune?: boolean;
}

export interface Enrichment {
  digest: string | null;
  purpose: string;
  examples: readonly string[];
  not_for: readonly string[];
  safety_tags: readonly string[];
  goes_with?: readonly string[];
  model: string;
  prompt: string;
}

export interface Entity {
  type: string;
  text: string;
  start: number;
  end: number;
}

export interface EqualsJson {
  field: "always_active" | "category" | "collection" | "deprecated" | "document" | "enabled" | "kind" | "name_key" | "provides" | "requires" | "safety_tags" | "sensitivity" | "server" | "tags" | "version";
  equals: string | boolean;
}

export interface Facets {
  tools: number;
  servers: Readonly<Record<string, number>>;
  categories: Readonly<Record<string, number>>;
  tags: Readonly<Record<string, number>>;
  sensitivities: Readonly<Record<string, number>>;
}

export interface FailedCapability {
  name: string;
  reason: string;
}

export interface Fault {
  place: string;
  reason: string;
}

export interface FeedbackBody {
  route?: "tools" | "knowledge" | "both" | "none" | "general" | null;
  tools?: readonly string[] | null;
  collections?: readonly string[] | null;
  passages?: readonly string[] | null;
  labels?: readonly string[] | null;
  intent?: string | null;
  domain?: string | null;
  outcome?: "success" | "failure" | null;
  note?: string | null;
  decision_id: string;
}

export interface FeedbackRecord {
  decision: string;
  at: string;
  route?: "tools" | "knowledge" | "both" | "none" | "general";
  tools?: readonly string[];
  collections?: readonly string[];
  passages?: readonly string[];
  labels?: readonly string[];
  intent?: string;
  domain?: string;
  outcome?: "success" | "failure";
  note?: string;
  kind: "feedback";
}

export interface FilterEffect {
  matched: number;
  left_out: number;
  lacking: Readonly<Record<string, number>>;
}

export interface Finding {
  severity: "info" | "warning" | "block";
  rule: string;
  tool: string;
  place: string;
  excerpt: string;
  why: string;
}

export interface FoundTools {
  query: string;
  tools: readonly ToolHit[] | readonly (Readonly<Record<string, unknown>>)[];
  took_ms: Readonly<Record<string, number>>;
  confidence: number | null;
  verdict: "accept" | "fallback" | "abstain";
  reason: string;
  threshold: number | null;
  fallback: boolean;
  degraded: readonly string[];
  unmatched_terms?: readonly string[];
  needs?: readonly NeedResult[];
  interleaved?: string;
  called?: readonly string[];
  spelling?: Readonly<Record<string, string>>;
  filtered?: FilterEffect;
  names?: Readonly<Record<string, string>>;
  left_out?: readonly LeftOut[];
}

export interface GatewayActivity {
  gateways: number;
  servers: readonly GatewayServer[];
  calls: readonly GatewayCall[];
  kept: number;
  failures: number;
  tokens: number;
  saved: number;
  since: string | null;
}

export interface GatewayCall {
  at: string;
  agent: string;
  server: string;
  tool: string;
  outcome: "success" | "failure";
  took_ms: number;
  tokens: number;
  by?: string;
  arguments?: string;
  saved?: Readonly<Record<string, number>>;
  kind: "call" | "list";
}

export interface GatewayServer {
  name: string;
  state: "starting" | "up" | "down" | "unusable" | "needs_authorisation" | "authorisation_expired" | null;
  reason: string;
  tools: number;
  held: number;
  calls: number;
  failures: number;
  tokens: number;
  saved: number;
}

export interface GrantInput {
  namespaces?: readonly string[];
  servers?: readonly string[] | null;
  tags?: readonly string[] | null;
  collections?: readonly string[] | null;
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  access?: "read" | "write" | "admin";
  rate?: string | null;
  profile?: string | null;
}

export interface Grant {
  namespaces: readonly string[];
  servers: readonly string[] | null;
  tags: readonly string[] | null;
  collections: readonly string[] | null;
  max_sensitivity: "public" | "internal" | "pii" | "safety_critical" | null;
  access: "read" | "write" | "admin";
  rate: string | null;
  profile: string | null;
}

export interface Guidance {
  injections: readonly GuidanceInjection[];
  patterns: readonly TrajectoryPattern[];
}

export interface GuidanceBody {
  text?: string;
  history?: readonly MessageBody[];
  attachments?: readonly unknown[] | null;
  metadata?: Readonly<Record<string, unknown>>;
  scope?: ScopeInput | null;
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  needs?: readonly string[];
  trajectory?: readonly (Readonly<Record<string, unknown>>)[];
  step?: string | null;
  thread_id?: string | null;
  unreadable?: number;
  given?: readonly string[];
}

export interface GuidanceInjection {
  key: string;
  content: string;
  priority: number;
  category: string;
}

export interface Held {
  tool_id: string;
  server: string;
  digest: string;
  was_digest: string | null;
  reason: string;
  findings: readonly Finding[];
  since: string;
  spec: ToolSpec;
  written_by: string;
  replaces?: ToolSpec;
}

export interface HeldTools {
  held: readonly Held[];
}

export interface IndexBody {
  tools: readonly (Readonly<Record<string, unknown>>)[] | Readonly<Record<string, unknown>>;
  format?: "mcp" | "openapi" | "functions" | "toolspec" | null;
  server?: string | null;
  prune?: boolean;
}

export interface IndexReport {
  added: number;
  changed: number;
  removed: number;
  unchanged: number;
  refused: readonly Refusal[];
  dropped?: readonly Refusal[];
  copies?: readonly Refusal[];
  ids: OutcomeIds;
}

export interface KeyBody {
  name: string;
  grant?: GrantInput;
  expires_days?: number | null;
}

export interface KeyList {
  keys: readonly ListedKey[];
}

export interface KnowledgeBody {
  query: string;
  k?: number | null;
  collections?: readonly string[] | null;
  token_budget?: number | null;
  scope?: ScopeInput | null;
  context?: ContextInput | null;
}

export interface KnowledgeRecord {
  verdict: "accept" | "fallback" | "abstain";
  confidence: number | null;
  threshold: number | null;
  collections: readonly CollectionHit[];
  passages: readonly PassageRecord[];
}

export interface KnowledgeResult {
  collections: readonly CollectionHit[];
  passages: readonly PassageHit[];
  confidence: number | null;
  fit: number | null;
  verdict: "accept" | "fallback" | "abstain";
  reason: string;
  threshold: number | null;
  signals: readonly string[];
  degraded: readonly string[];
}

export interface LearnedTool {
  tool: string;
  server: string;
  observations: number;
  examples: number;
  support: number;
  live: boolean;
  reason: string;
  sessions: number;
  by: Readonly<Record<string, number>>;
  days: Readonly<Record<string, number>>;
  goes_with?: readonly string[];
  texts?: readonly string[];
  choice?: string;
}

export interface LearningStatus {
  on: boolean;
  collects: boolean;
  encoder: string;
  learned_at: string | null;
  observations: number;
  runs: number;
  orders_steps: boolean;
  used: readonly UsedTool[];
  servers: readonly ServerReplay[];
  tools: readonly LearnedTool[];
  left_out?: readonly string[];
}

export interface LeftOut {
  id: string;
  reason: string;
}

export interface LinksBody {
  id: string;
  scope?: ScopeInput | null;
}

export interface ListBody {
  limit?: number;
  cursor?: string | null;
  where?: EqualsJson | AnyOfJson | RangeJson | NotJson | AllJson | AnyJson | null;
  scope?: ScopeInput | null;
  order?: "store" | "name" | "server" | "use";
}

export interface ListedKey {
  id: string;
  name: string;
  state: "active" | "expired" | "revoked";
  grant: Grant;
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
}

export interface LoopState {
  task?: string | null;
  capabilities?: readonly string[] | null;
  plan?: readonly string[] | null;
  step?: number;
  direct_chat?: boolean | string;
  error?: "retriable" | "critical" | "reclassify" | "replan" | "fatal" | null;
  failure?: string;
  attempts?: number;
  reclassifications?: number;
  replans?: number;
  iterations?: number;
  finished?: boolean;
}

export interface Me {
  name: string;
  access: "read" | "write" | "admin";
  namespaces: readonly string[];
  namespace: string;
  scope: Scope;
}

export interface Message {
  role?: string;
  content?: string | readonly unknown[] | null;
}

export interface MessageBody {
  role?: string;
  content?: string | readonly unknown[] | null;
}

export interface ModelUsage {
  use: string;
  model: string;
  calls: number;
  failed: number;
  input_tokens: number;
  output_tokens: number;
  cost: number | null;
}

export interface NeedResult {
  text: string;
  verdict: "accept" | "fallback" | "abstain";
  confidence: number | null;
}

export interface NewKey {
  key: ListedKey;
  text: string;
}

export interface NotJson {
  not: EqualsJson | AnyOfJson | RangeJson | NotJson | AllJson | AnyJson;
}

export interface OutcomeBody {
  decision_id: string;
  tool: string;
  outcome: "success" | "failure";
  took_ms?: number | null;
}

export interface OutcomeIds {
  added: readonly string[];
  changed: readonly string[];
  removed: readonly string[];
  unchanged: readonly string[];
}

export interface OutcomeRecord {
  decision: string;
  at: string;
  tool: string;
  outcome: "success" | "failure";
  took_ms?: number;
  kind: "outcome";
}

export interface PassageBody {
  document: string;
  text: string;
  title?: readonly string[];
  position?: number;
  start?: number;
}

export interface PassageHit {
  collection: string;
  source: string;
  text: string;
  title: readonly string[];
  position: number;
  start: number;
  rank: number;
  score: number;
  legs?: Readonly<Record<string, number>>;
  is_shared_name?: boolean;
  id: string;
  citation: string;
}

export interface PassageRecord {
  id: string;
  score: number;
}

export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  nearest?: readonly string[];
  errors?: readonly Fault[];
  retry_after_s?: number;
}

export interface RangeJson {
  field: "avg_latency_ms" | "cost_estimate";
  range: Bounds;
}

export interface Refusal {
  source: string;
  place: string;
  reason: string;
}

export interface RemoveBody {
  collection: string;
  documents: readonly string[];
}

export interface Removed {
  removed: number;
}

export interface ReportFile {
  name: string;
  modified: number;
  bytes: number;
}

export interface ReportFiles {
  reports: readonly ReportFile[];
}

export interface ReportedCall {
  outcome: OutcomeRecord;
  by: string | null;
}

export interface ReportedCalls {
  calls: readonly ReportedCall[];
}

export interface Route {
  kind: "tools" | "knowledge" | "both" | "none" | "general";
  reason: string;
  confidence: number | null;
  corrected_from: "tools" | "knowledge" | "both" | "none" | "general" | null;
}

export interface RouteBody {
  text?: string;
  history?: readonly MessageBody[];
  attachments?: readonly unknown[] | null;
  metadata?: Readonly<Record<string, unknown>>;
  scope?: ScopeInput | null;
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  needs?: readonly string[];
  trajectory?: readonly (Readonly<Record<string, unknown>>)[];
  step?: string | null;
  thread_id?: string | null;
  unreadable?: number;
  k?: number | "auto" | null;
  passages?: number | null;
  collections?: readonly string[] | null;
  token_budget?: number | null;
  budget_ms?: number | null;
  shown?: readonly string[];
  shape?: "summary" | "full" | "mcp" | "openai" | "openai-namespaces" | "anthropic" | "anthropic-deferred" | "tool_reference" | "signature" | "typescript" | "python-stub";
}

export interface RouteRecord {
  kind: "tools" | "knowledge" | "both" | "none" | "general";
  confidence: number | null;
  corrected_from: "tools" | "knowledge" | "both" | "none" | "general" | null;
}

export interface RoutedTurn {
  id: string;
  context: Context;
  route: Route;
  tools: ShapedSelection;
  knowledge: KnowledgeResult;
  search_text: string;
  agent: AgentDecision | null;
  signals: readonly string[];
  took_ms: Readonly<Record<string, number>>;
  degraded: readonly string[];
  max_tool_calls: number;
  tool_timeout_s: number;
  usage?: readonly ModelUsage[];
  guidance?: readonly GuidanceInjection[];
}

export interface ScopeInput {
  servers?: readonly string[] | null;
  tags?: readonly string[] | null;
  categories?: readonly string[] | null;
  without_safety_tags?: readonly string[];
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  collections?: readonly string[] | null;
}

export interface Scope {
  servers: readonly string[] | null;
  tags: readonly string[] | null;
  categories: readonly string[] | null;
  without_safety_tags: readonly string[];
  max_sensitivity: "public" | "internal" | "pii" | "safety_critical" | null;
  collections: readonly string[] | null;
}

export interface SearchBody {
  scope?: ScopeInput | null;
  where?: EqualsJson | AnyOfJson | RangeJson | NotJson | AllJson | AnyJson | null;
  gate?: boolean;
  explain?: boolean;
  form?: "schema" | "signature";
  order?: "rank" | "id";
  k?: number | "auto";
  coverage?: number | null;
  least?: number | null;
  needs?: readonly string[] | null;
  token_budget?: number | null;
  history?: readonly Message[] | null;
  called?: readonly string[] | null;
  task?: string | null;
  query?: string | null;
  shape?: "summary" | "full" | "mcp" | "openai" | "openai-namespaces" | "anthropic" | "anthropic-deferred" | "tool_reference" | "signature" | "typescript" | "python-stub";
}

export interface ServerList {
  editable: boolean;
  servers: readonly ConfiguredServer[];
}

export interface ServerReplay {
  server: string;
  requests: number;
  sessions: number;
  before: number;
  after: number;
  p: number;
  strength: number;
  copies: number;
  verdict: "live" | "shadow";
  choice?: string;
}

export interface ServersBody {
  document: Readonly<Record<string, unknown>>;
}

export interface ServiceInfo {
  status: "ok";
  engine: string;
  tools: number;
  encoder: string;
  index: string;
}

export interface ShapedSelection {
  tools: readonly ToolHit[] | readonly (Readonly<Record<string, unknown>>)[];
  took_ms: Readonly<Record<string, number>>;
  confidence: number | null;
  verdict: "accept" | "fallback" | "abstain";
  reason: string;
  threshold: number | null;
  fallback: boolean;
  degraded: readonly string[];
  needs?: readonly NeedResult[];
  interleaved?: string;
  called?: readonly string[];
  names?: Readonly<Record<string, string>>;
  left_out?: readonly LeftOut[];
}

export interface Skill {
  body: string;
  files: Readonly<Record<string, string | null>>;
}

export interface SwitchBody {
  on: boolean;
}

export interface TextRecord {
  turn: string;
  search: string;
  entities: readonly Entity[];
  signals: readonly string[];
  reasons: Readonly<Record<string, string>>;
}

export interface ToolHit {
  rank: number;
  score: number;
  spec?: ToolSpec;
  legs?: Readonly<Record<string, number>>;
  probability: number | null;
  needs?: readonly number[];
  needed_for?: readonly string[];
  goes_with?: readonly string[];
  replaced_by?: string;
  also_on?: readonly string[];
  team?: "own" | "other";
  id: string;
  kind: "tool" | "skill";
  name: string;
  server: string;
  description: string;
}

export interface ToolLink {
  id: string;
  parameter: string;
}

export interface ToolLinks {
  needs: readonly ToolLink[];
  needed_by: readonly ToolLink[];
  goes_with: readonly ToolLink[];
  replaced_by: string | null;
}

export interface ToolPage {
  tools: readonly ToolSpec[];
  next: string | null;
  calls?: Readonly<Record<string, number>>;
}

export interface ToolReadiness {
  id: string;
  ready: boolean;
  reason: "unknown" | "disabled" | "quarantined" | "server_down" | "out_of_scope" | "needs_authorisation" | "authorisation_expired" | null;
}

export interface ToolRecord {
  id: string;
  score: number;
  probability: number | null;
  rule?: string;
  team?: "own" | "other";
}

export interface ToolReport {
  added: number;
  changed: number;
  removed: number;
  unchanged: number;
  refused: readonly Refusal[];
  dropped?: readonly Refusal[];
  copies?: readonly Refusal[];
  quarantined: readonly Held[];
  ids: OutcomeIds;
}

export interface ToolSpec {
  name: string;
  description: string;
  server: string;
  id: string;
  input_schema: Readonly<Record<string, unknown>>;
  output_schema: Readonly<Record<string, unknown>>;
  success_examples: readonly string[];
  anti_patterns: readonly string[];
  cost_estimate: number | null;
  avg_latency_ms: number | null;
  safety_tags: readonly string[];
  sensitivity: "public" | "internal" | "pii" | "safety_critical";
  category: string;
  tags: readonly string[];
  annotations: Readonly<Record<string, unknown>>;
  requires: readonly string[];
  provides: readonly string[];
  goes_with?: readonly string[];
  always_active: boolean;
  enabled: boolean;
  version: string;
  enrichment?: Enrichment | null;
  skill?: Skill | null;
}

export interface ToolsRecord {
  verdict: "accept" | "fallback" | "abstain";
  confidence: number | null;
  threshold: number | null;
  fallback: boolean;
  items: readonly ToolRecord[];
  interleaved?: string;
}

export interface TrajectoryPattern {
  type: string;
  confidence: number;
  evidence: string;
  first_seen: number;
  occurrences: number;
}

export interface TurnBody {
  text?: string;
  history?: readonly MessageBody[];
  attachments?: readonly unknown[] | null;
  metadata?: Readonly<Record<string, unknown>>;
  scope?: ScopeInput | null;
  max_sensitivity?: "public" | "internal" | "pii" | "safety_critical" | null;
  needs?: readonly string[];
  trajectory?: readonly (Readonly<Record<string, unknown>>)[];
  step?: string | null;
  thread_id?: string | null;
  unreadable?: number;
}

export interface UndoBody {
  what: string;
}

export interface Undone {
  removed: number;
}

export interface UsedTool {
  tool: string;
  runs: number;
  next: Readonly<Record<string, number>>;
}

export interface VerdictBody {
  verdict: "approve" | "reject";
  digest?: string | null;
}

export interface paths {
  "/v1/tools/search": {
    post: { parameters: {}; requestBody: { content: { "application/json": SearchBody } }; responses: { 200: { content: { "application/json": FoundTools } } } };
  };
  "/v1/tools": {
    post: { parameters: { query?: { prune?: boolean; server?: string | null } }; requestBody: { content: { "application/json": IndexBody } }; responses: { 200: { content: { "application/json": ToolReport } } } };
    get: { parameters: { query?: { limit?: number; cursor?: string | null; server?: readonly string[]; tag?: readonly string[] } }; responses: { 200: { content: { "application/json": ToolPage } } } };
  };
  "/v1/tools/list": {
    post: { parameters: {}; requestBody: { content: { "application/json": ListBody } }; responses: { 200: { content: { "application/json": ToolPage } } } };
  };
  "/v1/tools/links": {
    post: { parameters: {}; requestBody: { content: { "application/json": LinksBody } }; responses: { 200: { content: { "application/json": ToolLinks } } } };
  };
  "/v1/tools/check": {
    post: { parameters: {}; requestBody: { content: { "application/json": CheckBody } }; responses: { 200: { content: { "application/json": CheckedTools } } } };
  };
  "/v1/tools/{id}": {
    get: { parameters: { path: { id: string } }; responses: { 200: { content: { "application/json": ToolSpec } } } };
    delete: { parameters: { path: { id: string } }; responses: { 204: { content: never } } };
  };
  "/v1/facets": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": Facets } } } };
  };
  "/v1/collections": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": CollectionList } } } };
    post: { parameters: {}; requestBody: { content: { "application/json": CollectionsBody } }; responses: { 200: { content: { "application/json": CollectionList } } } };
  };
  "/v1/collections/{name}": {
    delete: { parameters: { path: { name: string } }; responses: { 204: { content: never } } };
  };
  "/v1/documents": {
    post: { parameters: { query?: { prune?: string | null } }; requestBody: { content: { "application/json": DocumentsBody } }; responses: { 200: { content: { "application/json": IndexReport } } } };
    delete: { parameters: {}; requestBody: { content: { "application/json": RemoveBody } }; responses: { 200: { content: { "application/json": Removed } } } };
  };
  "/v1/knowledge/search": {
    post: { parameters: {}; requestBody: { content: { "application/json": KnowledgeBody } }; responses: { 200: { content: { "application/json": KnowledgeResult } } } };
  };
  "/v1/detect": {
    post: { parameters: {}; requestBody: { content: { "application/json": TurnBody } }; responses: { 200: { content: { "application/json": Context } } } };
  };
  "/v1/route": {
    post: { parameters: {}; requestBody: { content: { "application/json": RouteBody } }; responses: { 200: { content: { "application/json": RoutedTurn } } } };
  };
  "/v1/classify": {
    post: { parameters: {}; requestBody: { content: { "application/json": ClassifyBody } }; responses: { 200: { content: { "application/json": Classification } } } };
  };
  "/v1/capabilities": {
    post: { parameters: {}; requestBody: { content: { "application/json": CapabilitiesBody } }; responses: { 200: { content: { "application/json": CapabilitySelection } } } };
  };
  "/v1/alternates": {
    post: { parameters: {}; requestBody: { content: { "application/json": AlternatesBody } }; responses: { 200: { content: { "application/json": Alternates } } } };
  };
  "/v1/guidance": {
    post: { parameters: {}; requestBody: { content: { "application/json": GuidanceBody } }; responses: { 200: { content: { "application/json": Guidance } } } };
  };
  "/v1/decisions": {
    get: { parameters: { query?: { limit?: number; cursor?: string | null; reports?: boolean } }; responses: { 200: { content: { "application/json": DecisionPage } } } };
  };
  "/v1/decisions/{id}": {
    get: { parameters: { path: { id: string } }; responses: { 200: { content: { "application/json": DecisionHistory } } } };
  };
  "/v1/outcomes": {
    get: { parameters: { query?: { limit?: number } }; responses: { 200: { content: { "application/json": ReportedCalls } } } };
    post: { parameters: {}; requestBody: { content: { "application/json": OutcomeBody } }; responses: { 204: { content: never } } };
  };
  "/v1/feedback": {
    post: { parameters: {}; requestBody: { content: { "application/json": FeedbackBody } }; responses: { 204: { content: never } } };
  };
  "/v1/learning": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": LearningStatus } } } };
    post: { parameters: {}; requestBody: { content: { "application/json": SwitchBody } }; responses: { 204: { content: never } } };
  };
  "/v1/learning/replay": {
    post: { parameters: {}; responses: { 200: { content: { "application/json": LearningStatus } } } };
  };
  "/v1/learning/undo": {
    post: { parameters: {}; requestBody: { content: { "application/json": UndoBody } }; responses: { 200: { content: { "application/json": Undone } } } };
  };
  "/v1/quarantine": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": HeldTools } } } };
  };
  "/v1/quarantine/{id}": {
    post: { parameters: { path: { id: string } }; requestBody: { content: { "application/json": VerdictBody } }; responses: { 204: { content: never } } };
  };
  "/v1/servers": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": ServerList } } } };
    post: { parameters: {}; requestBody: { content: { "application/json": ServersBody } }; responses: { 200: { content: { "application/json": AddedServers } } } };
  };
  "/v1/servers/{name}": {
    post: { parameters: { path: { name: string } }; requestBody: { content: { "application/json": SwitchBody } }; responses: { 204: { content: never } } };
    delete: { parameters: { path: { name: string } }; responses: { 204: { content: never } } };
  };
  "/v1/activity": {
    get: { parameters: { query?: { limit?: number } }; responses: { 200: { content: { "application/json": GatewayActivity } } } };
  };
  "/v1/me": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": Me } } } };
  };
  "/v1/keys": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": KeyList } } } };
    post: { parameters: {}; requestBody: { content: { "application/json": KeyBody } }; responses: { 200: { content: { "application/json": NewKey } } } };
  };
  "/v1/keys/{id}": {
    delete: { parameters: { path: { id: string } }; responses: { 204: { content: never } } };
  };
  "/v1/reports": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": ReportFiles } } } };
  };
  "/v1/reports/{name}": {
    get: { parameters: { path: { name: string } }; responses: { 200: { content: { "text/html": string } } } };
  };
  "/healthz": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": Alive } } } };
  };
  "/readyz": {
    get: { parameters: {}; responses: { 200: { content: { "application/json": ServiceInfo } } } };
  };
  "/metrics": {
    get: { parameters: {}; responses: { 200: { content: { "text/plain": string } } } };
  };
}
