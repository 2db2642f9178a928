"""
What reports of the field claim of tools like this one, and the tests that show it here.

Aspects: reports of fences · releases · captured states · failed restores and what they hold · the previous good
state is kept · absolute state · durable before observable · following to the end · certification.

Each claim is told in our own words. A test that is renamed is renamed here as well; one that goes needs another that
shows the same.
"""

from __future__ import annotations

import pytest

from tests.support.named import missing

FENCES = {
    "what a killed run left is listed whole: object, holder, evidence, exact release": (
        "e2e/test_release_chain.py::test_printed_commands_release_a_killed_chain_in_order_and_restore_what_was",
        "e2e/test_deploy_killed.py::test_printed_commands_of_a_killed_deploy_give_the_state_before",
        "report/test_golden.py::test_situation_as_text_is_the_golden_screen",
    ),
    "a report changes nothing": (
        "e2e/test_incomplete.py::test_fences_and_release_send_nothing_but_get",
        "core/test_rights.py::test_report_changes_nothing",
    ),
    "a report needs no credentials but the cluster's: without any for GitHub it says what is missing": (
        "evidence/test_gather.py::test_github_without_a_token_is_unknown_and_says_what_is_missing",
        "evidence/test_gather.py::test_local_holders_need_no_network_code",
    ),
    "a read that failed is told as such, alone, and never as an all-clear": (
        "e2e/test_incomplete.py::test_viewer_without_one_right_gets_an_incomplete_report_that_names_it",
        "report/test_text.py::test_case_10_incomplete_report_never_sounds_like_no_fence",
        "cli/test_boundary.py::test_error_is_told_as_what_why_and_what_next",
    ),
    "a mark without a journal is a fence, and so is a journal without a mark": (
        "e2e/test_release_chain.py::test_case_14_every_kind_of_mark_on_nodes_is_reported",
        "core/test_assemble.py::test_case_14_unusable_mark_is_a_fence_that_is_refused_with_its_reason",
        "core/test_bridge_nodes.py::test_case_14_claimed_node_that_is_not_cordoned_is_still_a_fence",
    ),
    "a free lease is no all-clear: what the same run has suspended and cordoned is still held": (
        "e2e/test_release_chain.py::test_case_02_marked_node_is_held_although_the_lease_is_free",
        "e2e/test_deploy_refused.py::test_case_02_one_marked_node_refuses_although_the_lease_is_free",
    ),
    "every fence of a run names run and attempt, not the lease alone": (
        "core/test_identity.py::test_written_github_identity_is_read_back",
        "run/test_nodes.py::test_mark_names_the_run",
        "cli/test_demo_steps.py::test_only_the_lease_carries_the_details",
        "core/test_assemble.py::test_case_02_fence_without_a_heartbeat_says_where_the_lease_is",
    ),
    "a holder that names no run cannot be judged, and that is said": (
        "core/test_identity.py::test_case_01_identity_without_a_run_is_opaque",
        "core/test_verdict.py::test_case_01_identity_that_names_no_run_stays_unknown_for_ever",
        "core/test_bridge_marks.py::test_what_names_no_run_of_that_tool_is_opaque",
    ),
    "evidence is that of the attempt: a rerun says nothing about the one before": (
        "evidence/test_github_attempts.py::test_case_16_attempt_that_was_re_run_is_judged_by_itself",
        "core/test_verdict.py::test_case_16_check_command_pins_attempt_and_takes_no_hostile_text",
    ),
    "an expired lease proves nothing, and nobody takes it over for its age": (
        "core/test_verdict.py::test_every_combination_of_facts_has_the_verdict_that_the_rules_say",
        "core/test_releases.py::test_case_28_held_lease_is_not_acquired",
        "run/test_transaction.py::test_lease_that_somebody_holds_ends_it_before_anything_is_written",
    ),
    "every refusal, whichever fence stops it, points at the report": (
        "e2e/test_deploy_refused.py::test_case_06_held_fences_refuse_with_who_what_and_the_way_out",
        "e2e/test_deploy_refused.py::test_case_02_one_marked_node_refuses_although_the_lease_is_free",
        "cli/test_help.py::test_answers_to_habits_name_only_what_exists",
    ),
    "there is a page to follow for each refusal": (
        "drift/test_runbooks.py::test_refusal_has_exactly_one_runbook",
        "e2e/test_runbooks.py::test_commands_of_a_runbook_do_what_it_says",
    ),
    "an interrupt releases within the time that CI gives, and nothing that could outlive it is begun": (
        "e2e/test_deploy_signals.py::test_case_47_signal_before_the_command_unwinds_and_tells_which",
        "e2e/test_deploy_signals.py::test_fences_of_one_rank_are_released_side_by_side_and_the_parent_after_its_child",
        "run/test_flux_revision.py::test_interrupt_while_it_is_followed_leaves_no_time_to_suspend_again",
        "e2e/test_action.py::test_case_47_cancel_reaches_the_deploy_and_leaves_nothing_fenced",
    ),
}

RELEASES = {
    "what is printed is what is sent: one builder, the same operations in the same order": (
        "drift/test_one_place.py::test_one_module_makes_patch_operations",
        "report/test_commands.py::test_printed_command_in_a_real_shell_is_the_patch",
        "report/test_release.py::test_commands_of_the_script_are_those_of_the_report",
        "core/test_bridge_states.py::test_releases_run_in_order_leave_no_fence_behind",
    ),
    "a parent that was never excluded from its applier is released without testing for that": (
        "core/test_bridge_flux.py::test_parent_is_resumed_without_a_word_on_reconcile",
        "core/test_bridge_flux.py::test_child_is_resumed_and_its_exclusion_taken_back",
        "core/test_releases.py::test_suspension_placed_and_released_gives_the_object_back",
    ),
    "each guard holds the value of its own object": (
        "core/test_assemble.py::test_case_15_guards_hold_the_values_of_their_own_object",
        "e2e/test_release_chain.py::test_case_15_command_is_refused_once_a_guarded_value_has_changed_and_changes_nothing",
    ),
    "only what this run cordoned is uncordoned: not what was cordoned before": (
        "core/test_bridge_nodes.py::test_journalled_node_that_was_cordoned_stays_cordoned",
        "core/test_bridge_nodes.py::test_journalled_node_that_was_schedulable_is_uncordoned",
        "run/test_nodes.py::test_node_that_was_cordoned_before_stays_cordoned",
    ),
    "where nobody recorded what was before, nobody guesses": (
        "core/test_bridge_nodes.py::test_claimed_node_is_released_without_uncordoning",
        "core/test_releases.py::test_cordon_whose_journal_does_not_tell_the_prior_state_is_refused",
        "core/test_releases.py::test_suspension_whose_journal_does_not_tell_the_prior_state_is_refused",
    ),
    "false and zero are values, not absences, and a journal is read in the spelling that is really written": (
        "core/test_bridge_journal.py::test_number_counts_as_it_is_spelled",
        "core/test_bridge_journal.py::test_journal_with_the_full_schema_is_read",
        "contract/test_suspensions.py::test_guard_on_the_suspension_tells_absent_from_false",
        "core/test_restore.py::test_true_is_not_one_and_null_is_not_absent",
    ),
    "a node half-way through its change gets a refusal that says what to do, never a command": (
        "core/test_bridge_nodes.py::test_rung_2_unfinished_journal_phases_are_refused",
        "e2e/test_recover.py::test_mutating_node_stops_all_of_it_until_a_person_vouches_for_the_node",
        "cli/test_recover_cli.py::test_half_changed_node_is_said_at_once_with_the_way_on",
    ),
    "the lease goes last, in the report and in every release": (
        "core/test_assemble.py::test_dead_run_is_listed_in_release_order_lease_last",
        "core/test_groups.py::test_lease_is_last_of_all_whatever_rank_a_journal_claims",
        "run/test_recovery.py::test_chain_is_released_in_order_and_the_lease_last",
        "e2e/test_release_chain.py::test_bridge_chain_is_released_in_that_tools_order",
    ),
}

CAPTURED = {
    "every form of a deploy captures what it is about to change, whichever route reaches the target": (
        "run/test_capturing.py::test_command_captures_what_the_flux_objects_that_it_suspends_have_applied",
        "run/test_capturing.py::test_command_captures_what_deploys_of_this_lease_have_applied",
        "run/test_capturing.py::test_flux_captures_what_the_objects_that_it_resumes_have_applied",
        "run/test_capturing.py::test_apply_captures_each_object_and_what_the_servers_dry_run_makes_of_it",
        "run/test_capturing.py::test_run_inside_of_another_captures_nothing_and_that_ones_point_stands",
    ),
    "what cannot be captured is not changed: the deploy does not begin, and says why": (
        "run/test_capturing.py::test_object_that_may_not_be_read_ends_the_deploy_and_names_verb_and_resource",
        "run/test_capturing.py::test_inventory_that_cannot_be_read_ends_the_deploy",
        "run/test_capturing.py::test_more_than_a_point_can_hold_ends_the_deploy_before_anything_changes",
        "run/test_capturing.py::test_point_that_cannot_be_stored_ends_the_deploy_and_a_retry_works",
    ),
    "what is captured is the good state, without what this run has put on it": (
        "run/test_capturing.py::test_what_is_captured_has_no_fence_on_it_while_the_object_has",
        "core/test_captured.py::test_object_under_a_suspension_is_captured_as_it_was_before_it",
    ),
    "a point that is not whole is none": (
        "core/test_recovery_point.py::test_part_that_was_changed_cut_or_exchanged_is_no_point",
        "core/test_recovery_point.py::test_part_that_is_missing_is_named",
        "run/test_capturing.py::test_part_that_fails_after_another_was_stored_leaves_no_half_of_a_point_behind",
    ),
}

RESTORES = {
    "the restore's own word on whether it moved anything goes before every other sign": (
        "core/test_claims.py::test_own_verdict_of_the_restore_comes_before_every_reason",
    ),
    "without its word, only reasons of a closed list prove that nothing moved": (
        "core/test_claims.py::test_refusal_for_a_reason_of_the_closed_list_has_moved_nothing",
        "core/test_claims.py::test_failure_for_any_other_reason_may_have_moved_something",
    ),
    "a success that does not name the generation that was asked for is unconfirmed": (
        "core/test_claims.py::test_answer_about_another_generation_is_unconfirmed_even_as_a_success",
        "core/test_claims.py::test_only_an_answer_about_the_generation_that_was_asked_for_is_a_success",
    ),
    "no answer is unconfirmed, whatever was said before": (
        "core/test_claims.py::test_restore_without_an_answer_is_unconfirmed_whatever_it_had_said",
    ),
    "a restore that was never begun is none that failed": (
        "core/test_claims.py::test_restore_that_was_never_begun_has_not_failed",
    ),
    "a refused restore is told on its own target and holds nothing": (
        "core/test_claims.py::test_refused_restore_is_told_on_its_target_and_holds_nothing",
        "core/test_assemble.py::test_claim_that_moved_nothing_is_a_finding_and_holds_nothing",
        "core/test_deploy_refusals.py::test_claim_that_moved_nothing_withholds_nothing",
        "run/test_claims_recorded.py::test_claim_that_moved_nothing_stops_no_deploy",
        "run/test_restore_claims.py::test_refused_restore_is_told_and_leaves_its_target_deployable",
    ),
    "a restore that may have changed its target holds deploys and unattended recovery of it": (
        "core/test_claims.py::test_failed_restore_leaves_a_claim_with_class_time_and_reason",
        "core/test_deploy_refusals.py::test_claim_withholds_a_deploy_unless_it_runs_over_it",
        "core/test_assemble.py::test_claim_is_a_hold_that_says_what_its_restore_has_changed",
        "e2e/test_recover.py::test_hold_stops_an_unattended_recovery",
        "e2e/test_incomplete.py::test_holds_and_claims_of_a_record_are_shown",
        "run/test_restore_claims.py::test_restore_that_was_killed_is_interrupted_for_the_next_deploy_and_holds_it_back",
    ),
    "only a success retires a claim that may have moved its target": (
        "core/test_claims.py::test_later_deploy_or_restore_that_ended_well_retires_a_claim",
        "run/test_claims_recorded.py::test_deploy_over_a_claim_that_succeeds_retires_it",
        "run/test_claims_recorded.py::test_deploy_that_runs_nothing_is_no_evidence",
        "run/test_claims_recorded.py::test_own_rollback_that_succeeded_retires_earlier_claims",
        "run/test_restore_claims.py::test_deploy_over_a_claim_runs_where_a_person_says_so_and_its_success_retires_it",
    ),
    "a later failure stands beside the claim, and changes neither its class nor its time": (
        "core/test_claims.py::test_failure_does_not_retire_a_claim_and_leaves_its_class_and_time_alone",
        "run/test_claims_recorded.py::test_deploy_over_a_claim_that_fails_leaves_it_as_it_is",
        "run/test_restore_claims.py::test_restore_without_an_answer_is_unconfirmed_and_stands_beside_a_later_failure",
    ),
    "a claim that moved nothing is retired by a later failure too": (
        "core/test_claims.py::test_claim_that_moved_nothing_is_retired_by_a_later_failure_too",
    ),
    "a claim is retired in the very write that tells the outcome": (
        "run/test_claims_recorded.py::test_retirement_is_in_the_same_write_as_the_outcome",
        "run/test_claims_recorded.py::test_failed_restore_of_a_run_is_recorded_with_its_outcome",
    ),
    "a person can end a claim, by its name and with a reason, without editing anything by hand": (
        "e2e/test_hold.py::test_claim_is_lifted_by_its_name_and_never_placed",
    ),
    "one restore of a target at a time: the second is refused before anything is opened, the first goes on": (
        "core/test_deploy_refusals.py::test_lease_whose_record_is_restoring_is_17_and_any_other_12",
        "e2e/test_rollback_claims.py::test_two_rollbacks_at_once_one_runs_and_one_exits_17_with_nothing_changed",
        "core/test_deploy_refusals.py::test_record_of_another_lease_makes_no_restore_of_this_one",
        "core/test_claims.py::test_newest_record_in_phase_restoring_names_who_is_restoring",
    ),
    "a restore that died is seen by the next run, told as interrupted, and never refused for ever": (
        "core/test_claims.py::test_restore_that_died_leaves_an_unconfirmed_claim_once",
        "e2e/test_rollback_claims.py::test_rollback_that_was_killed_is_seen_by_the_next_command_and_never_refused_for_ever",
        "core/test_claims.py::test_run_that_died_is_reclassified_as_interrupted_with_its_story_kept",
        "core/test_deploy_refusals.py::test_restore_whose_holder_is_dead_is_16_and_so_never_refused_for_ever",
        "run/test_claims_recorded.py::test_restore_that_died_holds_its_target_and_is_not_refused_for_ever",
        "run/test_claims_recorded.py::test_run_that_died_is_recorded_as_interrupted_by_the_next_deploy",
    ),
    "what a crash left in a record blocks nothing once it has been told": (
        "core/test_deploy_refusals.py::test_restore_that_died_and_left_its_lease_blocks_nothing",
        "core/test_assemble.py::test_record_without_an_outcome_is_a_finding_only_when_its_run_holds_no_lease",
    ),
    "every way out of a restore that was begun is recorded, a thrown error included": (
        "run/test_restore_claims.py::test_thrown_error_in_the_middle_of_a_restore_is_recorded_and_holds",
        "run/test_restore_claims.py::test_restore_whose_lease_was_lost_writes_no_claim_and_the_next_run_finds_it",
        "run/test_restoring.py::test_budget_that_is_over_ends_it_and_names_what_is_not_back",
    ),
    "a restore that stopped half-way may have changed its target, whatever it tried to undo": (
        "run/test_restore_claims.py::test_restore_that_stopped_half_way_holds_its_target_until_a_rollback_succeeds",
        "run/test_restoring.py::test_interrupt_ends_it_after_the_write_that_is_under_way",
    ),
    "what holds a target never refuses the rollback that would free it": (
        "run/test_restore_claims.py::test_restore_that_was_killed_is_no_obstacle_to_the_next_rollback",
        "run/test_restore_claims.py::test_restore_that_stopped_half_way_holds_its_target_until_a_rollback_succeeds",
    ),
    "a rollback keeps the first cause, and what is not known to have failed is not undone": (
        "run/test_rolling_back.py::test_failed_rollout_is_rolled_back_by_the_transaction_and_its_cause_stays",
        "run/test_rolling_back.py::test_failed_deploy_is_rolled_back_but_not_what_is_only_unknown_or_the_nodes_fault",
    ),
    "an interrupt never begins a rollback: it is owed, and said to be": (
        "e2e/test_rollback.py::test_interrupt_never_starts_a_rollback_and_says_that_it_is_owed",
        "run/test_rolling_back.py::test_interrupt_while_it_is_followed_leaves_the_rollback_owed",
    ),
    "a superseded restore changes nothing: no object, no record, no claim": (
        "run/test_restoring.py::test_case_64_target_that_another_run_has_deployed_to_since_is_left_alone",
        "run/test_after_failure.py::test_case_64_deploy_that_lost_its_lease_leaves_what_was_deployed_since_alone",
        "run/test_restoring.py::test_case_64_restore_whose_lease_is_lost_writes_nothing_more",
        "core/test_past.py::test_case_64_later_run_that_may_have_changed_the_target_supersedes",
        "run/test_claims_recorded.py::test_no_claim_is_retired_or_left_once_the_lease_is_lost",
    ),
    "what one target came to neither releases nor hides what another one holds": (
        "core/test_several.py::test_every_target_is_in_the_sentence_and_no_code_hides_a_worse_one",
        "e2e/test_deploy_several.py::test_case_06_killed_in_the_second_leaves_that_one_fenced_and_no_other",
        "cli/test_deploy_several.py::test_first_that_does_not_succeed_is_the_last_and_hides_nothing_before_it",
        "run/test_restore_claims.py::test_target_of_a_sibling_is_deployable_whatever_holds_this_one",
        "e2e/test_rollback_claims.py::test_unconfirmed_restore_holds_its_target_until_a_success_while_a_sibling_stays_deployable",
    ),
    "an object that is gone answers for no fence any more": (
        "core/test_assemble.py::test_case_18_deleted_node_blocks_nothing_and_one_being_deleted_is_said",
        "run/test_fencing.py::test_what_was_lifted_or_deleted_by_others_is_released",
    ),
    "once what held is gone, whoever waits goes on by himself": (
        "e2e/test_deploy_refused.py::test_deploy_that_waits_goes_on_when_the_holder_has_ended",
        "e2e/test_deploy_several.py::test_waiting_for_the_second_keeps_the_first_untouched_and_goes_on_when_it_is_free",
    ),
    "nothing to go back to is said at once, and nothing is deleted for it": (
        "run/test_restoring.py::test_case_59_first_deploy_has_no_previous_good_state_and_nothing_is_deleted",
        "e2e/test_rollback.py::test_case_59_first_deploy_has_nothing_to_roll_back_to",
        "run/test_after_failure.py::test_case_59_first_deploy_that_fails_has_no_previous_good_state_and_deletes_nothing",
        "e2e/test_rollback.py::test_rollback_of_a_target_without_a_deploy_changes_nothing",
    ),
}

KEPT = {
    "what would bring the bad state back stays suspended after a rollback, and says so": (
        "run/test_keeping.py::test_rolled_back_deploy_keeps_its_suspensions_and_frees_the_lease",
        "run/test_keeping.py::test_command_that_was_printed_before_does_not_resume_what_is_kept",
        "e2e/test_rollback_kept.py::test_failed_manifests_are_rolled_back_and_what_would_bring_them_back_is_kept",
    ),
    "what is kept is ended by the deploy that brings the fix, and by no failure": (
        "e2e/test_rollback_kept.py::test_kept_suspensions_are_adopted_kept_again_after_a_failure_and_released_after_a_success",
        "run/test_keeping.py::test_adopted_suspensions_stay_kept_after_a_failure",
    ),
    "one input that is broken, also the last one, ends it with everything as it was": (
        "e2e/test_deploy_files.py::test_manifest_that_is_broken_in_the_last_file_reads_and_changes_nothing",
        "e2e/test_deploy_several.py::test_mistake_in_the_last_manifest_is_told_before_either_is_read",
        "core/test_manifests.py::test_every_broken_file_is_named_at_once",
    ),
    "half a render is never compared with what is live: what it does not name was not removed by anybody": (
        "run/test_rendering.py::test_what_cannot_be_read_is_refused",
        "run/test_rendering.py::test_build_that_fails_is_told_with_its_own_words_cut",
        "core/test_applyset.py::test_case_61_prune_is_withheld_on_a_render_that_lost_too_much",
    ),
    "a failed deploy does not count as the last one that ran": (
        "e2e/test_deploy_applied.py::test_what_does_not_come_up_in_time_is_18_with_a_block_that_names_it",
        "run/test_handing_over.py::test_what_was_not_followed_to_success_is_no_success",
    ),
    "a target that is not there is never deployed to": (
        "e2e/test_deploy_refused.py::test_object_that_is_not_there_refuses",
        "run/test_handing_over.py::test_kind_that_the_cluster_has_not_is_refused_with_its_place",
    ),
}

ABSOLUTE = {
    "what is removed is removed by a whole view only: a list that fails half-way withholds it": (
        "run/test_pruning.py::test_case_61_list_that_fails_half_way_withholds_the_prune_and_shrinks_nothing",
        "e2e/test_deploy_applied.py::test_prune_is_withheld_where_a_list_is_forbidden",
    ),
    "nothing rendered is no wish to remove everything": (
        "e2e/test_deploy_applied.py::test_case_61_prune_takes_what_is_no_longer_rendered_and_is_withheld_on_too_little",
        "run/test_rendering.py::test_folder_without_a_manifest_is_no_empty_render",
        "core/test_inventory.py::test_inventory_that_cannot_be_read_whole_is_unknown",
    ),
    "withheld is not done: it is an outcome of its own, and no record advances over it": (
        "e2e/test_deploy_applied.py::test_prune_is_withheld_where_a_list_is_forbidden",
        "run/test_pruning.py::test_prune_is_withheld_where_what_was_applied_has_not_succeeded",
    ),
    "what is applied object by object goes on while what is absolute is withheld": (
        "e2e/test_deploy_applied.py::test_prune_is_withheld_where_a_list_is_forbidden",
        "run/test_pruning.py::test_partial_prune_that_was_allowed_takes_what_is_seen_and_keeps_the_rest_in_sight",
    ),
    "a deploy of less than everything takes nothing else out of the set": (
        "run/test_certifying.py::test_canary_is_of_the_set_so_that_it_is_neither_pruned_nor_forgotten",
        "e2e/test_deploy_applied.py::test_case_61_prune_takes_what_is_no_longer_rendered_and_is_withheld_on_too_little",
    ),
}

DURABLE = {
    "what cannot be recorded is not begun, nothing of it can be seen, and a retry works": (
        "run/test_deploy_record.py::test_record_that_cannot_be_written_leaves_nothing_to_be_seen_and_a_retry_works",
        "run/test_capturing.py::test_point_that_cannot_be_stored_ends_the_deploy_and_a_retry_works",
    ),
    "what belongs together is one write": (
        "run/test_claims_recorded.py::test_retirement_is_in_the_same_write_as_the_outcome",
        "core/test_record_write.py::test_fifty_first_record_pushes_the_oldest_out_in_the_same_guarded_patch",
        "contract/test_suspensions.py::test_mark_and_suspension_come_in_one_write",
    ),
    "a write that was carried out is never told as a failure": (
        "run/test_record.py::test_lost_answer_of_a_write_that_was_done_is_read_back_and_adopted",
        "e2e/test_hold.py::test_lost_answer_of_a_placing_is_no_failure",
        "run/test_fencing.py::test_case_33_placement_whose_answer_was_lost_is_adopted",
    ),
    "two of one name are not registered twice, and neither overwrites the other": (
        "run/test_deploy_record.py::test_generation_that_another_run_has_taken_meanwhile_is_not_overwritten",
        "core/test_several.py::test_two_contexts_of_one_cluster_and_one_lease_are_refused",
    ),
}

FOLLOWED = {
    "a deploy that was handed to a controller is not done: its end is that of the rollout": (
        "run/test_handing_over.py::test_objects_are_applied_in_order_followed_and_recorded",
        "run/test_flux_revision.py::test_object_and_its_ancestor_are_resumed_and_followed_to_the_revision",
        "run/test_follow_real.py::test_deployment_that_becomes_ready_succeeds",
    ),
    "each node that did not take it is named, with why": (
        "core/test_rollout_daemons.py::test_missing_pods_that_crash_on_good_nodes_are_a_failure",
        "run/test_follow_real.py::test_image_that_cannot_be_pulled_on_one_node_fails_with_that_node",
        "report/test_rollout.py::test_block_says_worst_first_what_a_person_would_look_up_next",
    ),
    "a node that could not be reached is not confirmed, beside a success as well": (
        "run/test_follow_real.py::test_daemon_set_with_a_node_down_and_one_cordoned_times_out_on_the_node_alone",
        "core/test_rollout_daemons.py::test_pod_that_ends_for_ever_leaves_its_node_open_beside_a_success",
        "report/test_rollout.py::test_node_that_nobody_could_confirm_is_shown_beside_a_success",
    ),
    "what cannot be followed is unknown, and unknown is never a success": (
        "run/test_handing_over.py::test_what_was_not_followed_to_success_is_no_success",
        "core/test_rollout_results.py::test_one_object_that_has_not_succeeded_decides",
        "e2e/test_deploy_applied.py::test_server_that_fails_and_then_refuses_while_it_is_followed_ends_as_unknown",
    ),
    "a status of a shape that nobody knows is unknown": (
        "core/test_rollout_other.py::test_one_field_of_an_unfinished_object_that_is_junk_never_makes_it_a_success",
        "core/test_rollout_other.py::test_what_is_no_object_is_unknown",
        "core/test_rollout_other.py::test_custom_kind_is_believed_where_it_says_which_generation_it_is_of",
    ),
    "errors in between do not count towards not found": (
        "run/test_follow.py::test_errors_do_not_count_towards_not_found",
        "run/test_follow.py::test_object_that_is_not_there_is_not_found_after_20_s_of_good_reads",
    ),
    "errors in a row are bounded, and a good read begins the count anew": (
        "run/test_follow.py::test_five_errors_in_a_row_are_no_end_before_60_s_without_a_good_read",
        "run/test_follow.py::test_60_s_without_a_good_read_end_in_unknown",
    ),
    "a refusal that asking again cannot change ends it at once": (
        "run/test_follow.py::test_one_refusal_that_asking_again_cannot_change_is_unknown_at_once",
        "run/test_follow.py::test_5xx_then_403_ends_at_the_403",
    ),
    "it asks less often as time goes by, and ends": (
        "run/test_follow.py::test_polls_slow_down_and_end_after_half_an_hour",
    ),
    "what was noticed is told with the time that it took": (
        "run/test_follow_real.py::test_results_say_when_they_were_noticed",
    ),
    "a stop is heard at once, also in the middle of a read that hangs": (
        "run/test_follow.py::test_stop_is_heard_within_a_second",
        "run/test_follow_watch.py::test_stop_does_not_wait_for_a_server_that_hangs",
    ),
    "nothing to follow costs nothing": ("run/test_follow.py::test_nothing_to_follow_is_done_without_a_request",),
    "a rollout that failed is not deployed a second time": (
        "run/test_follow.py::test_first_failure_ends_the_follow_soon",
        "run/test_handing_over.py::test_same_manifests_again_change_nothing",
    ),
    "every form of a deploy, and every form of its output, tells the end by the same rules": (
        "run/test_flux_revision.py::test_revision_that_does_not_succeed_is_suspended_again_before_the_end",
        "report/test_rollout.py::test_data_has_every_fact_under_its_name",
        "e2e/test_deploy.py::test_actions_gets_an_output_a_summary_and_an_annotation",
    ),
    "what a deploy came to is found later, by its number": (
        "e2e/test_history.py::test_deploys_are_listed_and_one_is_told_with_its_timeline",
    ),
    "texts of others are cut and escaped before they go anywhere": (
        "report/test_rollout.py::test_foreign_text_does_nothing_on_a_terminal_or_in_a_log",
        "core/test_answers.py::test_message_that_quotes_the_object_is_cut_to_its_reason",
        "run/test_deploy_record.py::test_command_in_the_record_is_one_line_without_secrets",
    ),
}

CERTIFIED = {
    "there are four outcomes, and not requested is one of them": (
        "core/test_certification.py::test_every_cell_of_the_table_is_decided_as_written",
        "run/test_certifying.py::test_deploy_that_asks_for_no_canary_says_not_requested",
    ),
    "a rejection shows its decision and ends the deploy, whatever is allowed": (
        "run/test_certifying.py::test_canary_that_its_command_rejects_stops_the_deploy_whatever_is_allowed",
        "e2e/test_deploy_canary.py::test_canary_that_does_not_come_up_is_rejected_with_the_block_that_names_it",
    ),
    "what was not certified is said aloud, and goes on only where that is allowed": (
        "e2e/test_deploy_canary.py::test_what_nobody_could_certify_is_said_aloud_and_goes_on_only_where_allowed",
    ),
    "an answer that is none certifies nothing": (
        "core/test_certification.py::test_exit_code_that_is_no_word_of_the_command_judges_nothing",
        "run/test_certifying.py::test_command_that_judges_nothing_stops_the_deploy_unless_that_is_allowed",
    ),
    "the decision is kept with the deploy": (
        "core/test_certification.py::test_record_tells_outcome_rejection_permission_and_why_in_short",
        "report/test_history.py::test_canary_is_told_in_words_in_the_timeline_and_as_data",
    ),
}

CLAIMS = FENCES | RELEASES | CAPTURED | RESTORES | KEPT | ABSOLUTE | DURABLE | FOLLOWED | CERTIFIED


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim_has_tests_that_exist(claim: str) -> None:
    """A claim without a test is a wish."""
    assert CLAIMS[claim]
    assert missing(CLAIMS[claim]) == []


def test_no_claim_is_told_twice() -> None:
    """The parts would overwrite each other."""
    parts = (FENCES, RELEASES, CAPTURED, RESTORES, KEPT, ABSOLUTE, DURABLE, FOLLOWED, CERTIFIED)
    assert len(CLAIMS) == sum(map(len, parts))


def test_test_that_does_not_exist_is_missed() -> None:
    """The table is worth what its check is."""
    named = ("drift/test_claims.py::test_none_such", "drift/none.py::test_x", "drift/test_claims.py::CLAIMS")
    assert missing((*named, "drift/test_claims.py::test_no_claim_is_told_twice")) == list(named)
