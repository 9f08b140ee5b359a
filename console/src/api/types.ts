/** The page's names for what the service answers; the shapes are those of the client in `typescript/`. */

import type { FeedbackRecord, FoundTools, Route, RoutedTurn, ShapedSelection, ToolHit, ToolSpec } from "../../../typescript/src/schema";

export type {
  AddedServers,
  CollectionHit as Asked,
  ConfiguredServer,
  Context,
  CountedCollection as Collection,
  DecisionHistory as DecisionPage,
  DecisionRecord,
  Entity,
  Facets,
  FeedbackRecord,
  Finding,
  GatewayActivity,
  GatewayCall,
  GatewayServer,
  Grant,
  Held,
  KeyBody,
  KeyList,
  LearnedTool,
  LearningStatus,
  ListedKey,
  KnowledgeResult as Knowledge,
  Me,
  NewKey,
  OutcomeRecord,
  PassageHit,
  ReportedCall,
  ReportFile as Report,
  Route,
  Scope,
  ServerList,
  ServerReplay,
  ServiceInfo as Ready,
  ToolHit as Hit,
  ToolLink as Link,
  ToolLinks as Links,
  ToolPage,
  ToolReport,
  ToolSpec as Spec,
  UsedTool,
} from "../../../typescript/src/schema";

export type Verdict = FoundTools["verdict"];
export type Sensitivity = ToolSpec["sensitivity"];
export type RouteKind = Route["kind"];
export type Counts = Readonly<Record<string, number>>;
export type Legs = Counts;

export const SENSITIVITIES: readonly Sensitivity[] = [
  "public",
  "internal",
  "pii",
  "safety_critical",
];
export const ROUTES: readonly RouteKind[] = ["tools", "knowledge", "both", "general", "none"];

/** The page asks for tools in the shape `summary` or `full`, never for a provider's. */
export type Found = Omit<FoundTools, "tools"> & { readonly tools: readonly ToolHit[] };
export type Decision = Omit<RoutedTurn, "tools"> & {
  readonly tools: Omit<ShapedSelection, "tools"> & { readonly tools: readonly ToolHit[] };
};

export type FeedbackFields = Omit<FeedbackRecord, "at" | "decision" | "kind">;
