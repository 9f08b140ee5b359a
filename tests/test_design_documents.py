"""Rows of the designs that toolcrib was conceived from: each has tests, and a line in the page."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "explanation" / "design.md"

TESTS_OF_ROWS = """
3.1 context
  context/test_detector.py clear_intents_are_told
  test_sample_turns.py designs_are_told_from_what_only_speaks_of_a_design
  router/test_router_failures.py detecting_writes_no_store_and_looks_nothing_up
  router/test_router.py metadata_state_the_urgency_and_where_a_turn_comes_from
3.2 specifications and sources
  indexers/readers/test_mcp.py everything_that_a_tool_carries_is_kept
  records/test_tools.py an_enrichment_changes_the_digest_and_an_author_s_safety_tags_win
3.3 top k
  router/test_tools.py limits_keep_out_what_states_more_and_nothing_that_is_silent
  router/test_router.py as_many_tools_come_as_are_needed_and_none_that_is_hardly_right
3.4 knowledge in two hops
  router/test_knowledge.py the_map_goes_by_domain_and_intent_together
  router/test_knowledge.py where_no_collection_is_sure_enough_all_are_asked
  test_knowledge_sample.py of_an_api_only_official_documentation_is_taken_where_no_intent_is_seen
  test_knowledge_sample.py a_search_for_passages_with_a_context_keeps_to_the_map
3.5 routing graph
  integrations/test_langgraph.py a_turn_is_routed_carried_out_and_answered
  integrations/test_langgraph.py an_answer_has_citations_out_of_two_collections
  integrations/test_langgraph.py without_a_planning_model_what_a_tool_requires_is_an_earlier_step
  integrations/test_langgraph.py after_the_last_attempt_an_alternate_takes_its_place
3.6 coordinator, workflow, composer
  integrations/test_langchain.py a_model_is_given_the_tools_of_the_turn_also_after_a_call
  integrations/test_langgraph.py without_reflection_no_call_is_made_again
  router/choices/test_question_classifier.py the_kinds_of_development_tasks_are_labelled_alike_and_none_is_an_example
3.7 gates
  retrieval/test_gate.py what_reaches_the_threshold_fits_and_the_reason_says_why
  router/test_router.py where_nothing_fits_the_general_tool_comes_behind_the_others
3.8 caps, fast path
  integrations/test_langgraph.py a_turn_ends_at_its_caps
  integrations/test_langgraph.py a_tool_that_takes_too_long_is_left
  router/test_router.py for_small_talk_nothing_comes_but_the_active_and_the_answer_says_why
3.9 alternates
  router/test_alternates.py the_same_tool_of_another_server_comes_first
  integrations/test_langgraph.py after_the_last_attempt_an_alternate_takes_its_place
3.10 metrics
  evaluation/test_decisions.py times_are_told_for_each_route_and_for_all
  evaluation/test_decisions.py confidence_is_held_against_success
  evaluation/test_decisions.py precision_and_recall_compare_what_was_returned_with_what_is_right
  evaluation/test_decisions.py collections_of_a_turn_that_asked_for_none_are_not_measured
3.11 success criteria
  test_sample_turns.py plain_turns_are_read_right
  test_knowledge_sample.py a_question_is_answered_from_the_document_that_holds_the_answer
1.1 decision
  router/choices/test_agent_turns.py a_decision_says_its_target_and_the_log_no_words_of_it
1.2 classifier, overrides
  router/choices/test_agent_model.py what_overrides_hold_is_not_the_models_to_say
  router/choices/test_agent_model.py a_confidence_in_another_shape_does_not_lose_the_target
1.3 ensemble
  router/choices/test_agent_model.py prompts_are_asked_at_once_and_most_votes_win
  router/choices/test_agent_model.py a_tie_goes_to_the_scorer
  router/choices/test_agent_model.py each_target_but_the_fallback_has_a_prompt_that_leans_to_it
1.4 calibration, second target
  router/choices/test_agent_model.py doubts_seconds_and_the_calibration_are_heard
  router/choices/test_agent_model.py a_calibration_that_falls_is_refused
1.5 cache
  router/choices/test_agent_model.py near_turns_with_the_same_evidence_share_a_decision
  router/choices/test_agent_model.py the_cache_forgets_what_is_old_and_what_is_too_much
1.6 heuristics
  router/choices/test_heuristics.py labelled_turns_go_where_they_should
1.7 questions about the assistant
  router/choices/test_heuristics.py what_is_noticed_is_said
1.8 probes
  router/test_probes.py statements_are_found_with_and_without_a_parser
  router/choices/test_heuristics.py passages_found_are_evidence
1.9 supervisor
  router/choices/test_supervisor.py supervising_holds_for_any_decision
  router/choices/test_supervisor.py documents_to_process_dominate_and_weak_hits_cap_the_confidence
1.10 conversation
  router/choices/test_heuristics.py a_follow_up_goes_where_the_turn_before_went
  router/test_router.py an_older_message_that_is_clearly_nearer_is_leant_on
  router/test_router.py a_turn_that_says_nothing_alone_is_joined_with_what_the_user_said
1.11 allowlist, evaluation
  router/choices/test_allowlist.py a_database_gives_its_tables_and_views
  router/choices/test_allowlist.py a_statement_with_anything_else_has_a_fault
  router/choices/test_allowlist.py a_plan_that_names_other_tables_or_columns_is_told_which
  evaluation/test_choices.py one_label_a_turn
0.1 always active, closure
  router/choices/test_capability_registry.py what_is_required_comes_with_it_the_always_active_first
0.2 parallel few-shot
  router/choices/test_capability_selector.py each_is_asked_by_itself_but_those_that_are_always_active
  router/choices/test_capability_selector.py examples_are_shuffled_the_same_way_for_the_same_seed
  router/choices/test_capability_selector.py one_that_fails_is_off_and_reported_and_the_turn_goes_on
0.3 bypass
  router/choices/test_capability_selector.py bypass_activates_all_by_call_conversation_or_setting
0.4 selection again
  router/choices/test_capability_selector.py after_a_failure_it_is_told_and_counted_and_limited
0.5 severities, retry
  router/test_recovery.py each_class_has_its_step
  router/test_recovery.py what_may_work_later_is_tried_again_and_waits_double_each_time
0.6 flow
  router/choices/test_flow.py plan_first
  router/choices/test_flow.py reactive
  router/choices/test_flow.py limits_are_settings
2.1 classifiers
  guidance/test_classifiers.py fields_and_defaults_are_those_of_the_specification
  guidance/test_classifiers.py each_fires_where_it_should_and_is_as_sure_as_that
2.2 combinators, benchmark
  guidance/test_classifiers.py composites_obey_their_logic_and_are_named_after_their_parts
  guidance/test_classifiers.py cooldowns_and_caps_are_never_broken
  guidance/test_classifiers.py a_benchmark_works_for_few_contexts_too
  guidance/test_classifiers.py a_language_model_is_asked_once_for_the_same_calls_and_told_no_arguments
2.3 providers, decision points
  guidance/test_providers.py hints_come_by_priority_and_one_for_a_key
  guidance/test_providers.py whatever_fails_is_no_guidance
  guidance/test_turns.py a_stuck_agent_gets_other_tools_and_a_hint_that_names_them
4.1 configuration
  router/choices/test_questions.py the_first_thing_that_is_wrong_is_said_in_order
  router/choices/test_questions.py what_is_missing_or_not_allowed_is_an_error_of_its_own
4.2 matching, output
  language_models/test_turns.py an_answer_is_matched_whole_then_by_word_the_longest_first
  router/choices/test_questions.py comparisons_of_what_a_node_gave
  router/choices/test_question_classifier.py words_that_name_no_class_are_the_default_unless_the_encoder_is_asked_for
"""  # noqa: E501
"""Each row, and below it its tests: a file, and a function without `test_`."""


def rows() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for line in TESTS_OF_ROWS.strip().splitlines():
        if line.startswith("  "):
            file, name = line.split()
            found[next(reversed(found))].append((file, name))
        else:
            found[line] = []
    return found


ROWS = rows()


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, functions))


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_designs_has_its_tests(row):
    assert ROWS[row]
    for file, name in ROWS[row]:
        assert f"test_{name}" in functions_of(file), name


def test_the_page_has_every_row_and_no_other():
    lines = re.findall(r"^\| (\d\.\d+ [^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert lines == list(ROWS)


def test_the_page_names_files_that_there_are():
    package = TESTS.parent
    for name in re.findall(r"`([\w/]+/[\w./]*)`", PAGE.read_text("utf-8")):
        places = (package, package / "toolcrib", package / "toolcrib/router/choices")
        assert any((place / name).exists() for place in places), name
