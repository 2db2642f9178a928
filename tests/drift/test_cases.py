"""
Faults that were seen in the wild, by number, and the tests that show that they do not happen here.

Each case is taken apart into what must be so; a test that is renamed is renamed here as well.
"""

from __future__ import annotations

import pytest

from tests.support.named import missing

CASES: dict[int, dict[str, tuple[str, ...]]] = {
    2: {
        "refused before any write, naming node, holder, what it is now and the report": (
            "e2e/test_deploy_refused.py::test_case_02_one_marked_node_refuses_although_the_lease_is_free",
        ),
        "reported as held although the lease is free": (
            "e2e/test_release_chain.py::test_case_02_marked_node_is_held_although_the_lease_is_free",
            "core/test_assemble.py::test_case_02_fence_without_a_heartbeat_says_where_the_lease_is",
        ),
    },
    3: {
        "not renewed is still ours: no new change, and everything is released": (
            "run/test_keeper.py::test_case_03_server_that_refuses_is_not_renewed_and_still_ours",
            "run/test_keeper.py::test_case_03_server_that_fails_each_renewal_but_shows_the_lease_has_not_renewed_it",
            "run/test_transaction.py::test_case_03_server_that_refuses_renewals_for_too_long_ends_the_command_and_all_is_released",
            "e2e/test_deploy_lease.py::test_case_03_refused_renewals_end_it_as_still_ours_and_everything_is_given_back",
        ),
        "taken by another is said with his name, and what is not ours stays": (
            "run/test_keeper.py::test_case_03_lease_taken_by_another_is_stolen_for_good",
            "run/test_keeper.py::test_case_03_lease_that_was_taken_behind_a_lost_answer_is_stolen",
            "run/test_transaction.py::test_case_03_stolen_lease_stops_the_command_keeps_suspensions_and_releases_own_nodes",
            "e2e/test_deploy_lease.py::test_case_03_stolen_lease_ends_it_and_names_the_thief",
        ),
    },
    4: {
        "a renewal in flight does not spoil the release": (
            "run/test_keeper.py::test_case_04_release_survives_a_renewal_in_flight",
            "e2e/test_deploy_lease.py::test_case_04_release_survives_renewals_in_flight",
        ),
        "another holder is not overwritten": (
            "run/test_transaction_loss.py::test_lease_that_is_somebody_elses_when_it_is_to_be_freed_was_lost",
        ),
    },
    6: {
        "dead, live and unknown holders differ in code and hint": (
            "e2e/test_deploy_refused.py::test_case_06_held_fences_refuse_with_who_what_and_the_way_out",
        ),
        "the flag that is missing is named": (
            "e2e/test_recover.py::test_case_06_nobody_to_ask_is_an_error_that_names_the_flag_before_anything_is_read",
        ),
    },
    9: {
        "stuck on a pending record, with revision and age, and the last deployed one": (
            "core/test_rollout_flux.py::test_pending_record_is_named_with_the_last_deployed_one",
            "core/test_rollout_flux.py::test_records_are_looked_for_where_helm_controller_keeps_them",
        ),
        "not tried again as if it passed, and the record stays": (
            "core/test_rollout_flux.py::test_helm_release_stuck_on_a_pending_record_fails_at_once",
            "run/test_follow.py::test_helm_release_stuck_on_a_pending_record_names_it_without_reading_it",
        ),
    },
    10: {
        "journal and live state side by side": (
            "core/test_assemble.py::test_case_10_journal_and_live_state_stand_side_by_side",
        ),
        "recovered from what is so now": (
            "e2e/test_recover_refusals.py::test_case_10_claim_whose_cordon_was_lifted_or_not_is_recovered_from_what_is_so_now",
            "e2e/test_deploy_killed.py::test_case_10_killed_deploys_on_a_real_server_are_recovered",
        ),
    },
    13: {
        "an interrupted deploy ends as interrupted, and not with 0": (
            "e2e/test_deploy_signals.py::test_case_13_signal_while_the_command_runs_ends_it_and_says_that_it_may_have_acted",
            "e2e/test_deploy_several.py::test_case_13_signal_unwinds_the_target_that_runs_and_starts_no_other",
        ),
        "the rollback that it owes is said": (
            "e2e/test_rollback.py::test_interrupt_never_starts_a_rollback_and_says_that_it_is_owed",
        ),
        "every conclusion of a completed job is an end, and none is a success": (
            "evidence/test_github_jobs.py::test_case_13_every_conclusion_of_a_completed_job_is_an_end",
            "evidence/test_github_jobs.py::test_case_13_every_conclusion_of_a_completed_attempt_is_an_end",
            "evidence/test_github_verdict.py::test_case_13_holder_whose_job_is_completed_is_dead_whatever_the_conclusion",
        ),
        "healing runs after a cancelled deploy too": (
            "e2e/test_action.py::test_case_13_example_heals_after_a_deploy_that_was_cancelled_too",
        ),
    },
    18: {
        "a node that is gone holds nothing back, one that is going is still guarded": (
            "core/test_assemble.py::test_case_18_deleted_node_blocks_nothing_and_one_being_deleted_is_said",
            "e2e/test_release_chain.py::test_case_18_node_that_is_gone_holds_nothing_back",
            "kube/test_observe.py::test_node_that_is_being_deleted_is_seen_and_one_that_is_gone_is_not",
        ),
        "a deploy goes on without it": (
            "run/test_nodes.py::test_case_18_node_that_was_deleted_does_not_hold_up_the_others",
            "e2e/test_deploy_lease.py::test_case_18_node_that_is_gone_when_it_is_to_be_released_is_nothing_to_release",
        ),
    },
    20: {
        "writes of others all the time refuse neither placement nor release": (
            "run/test_nodes.py::test_case_20_writes_of_others_all_the_time_do_not_refuse_a_fence",
            "run/test_fencing.py::test_case_20_placement_reads_again_while_kubelets_write",
            "e2e/test_deploy_lease.py::test_case_20_node_whose_kubelet_writes_all_the_time_is_claimed_and_released",
        ),
        "the printed command still works": (
            "run/test_nodes.py::test_case_20_printed_release_passes_after_writes_of_others",
            "e2e/test_release_chain.py::test_case_20_command_still_works_after_unrelated_writes",
        ),
    },
    22: {
        "only suspensions with a mark are fences; the others are counted and offered to nobody": (
            "core/test_assemble.py::test_case_22_only_owned_suspensions_are_fences",
            "e2e/test_incomplete.py::test_foreign_suspensions_and_cordons_are_apart_and_have_no_command",
            "kube/test_observe.py::test_marked_and_suspended_flux_objects_are_seen",
        ),
        "a mark on what is not suspended any more is its own line": (
            "core/test_releases.py::test_case_22_resumed_by_hand_then_released_drops_the_mark_only",
            "e2e/test_release_chain.py::test_case_22_what_was_lifted_by_hand_gets_a_command_that_drops_the_mark_only",
            "core/test_bridge_flux.py::test_case_22_mark_on_a_resumed_child_is_its_own_line",
        ),
        "what is applied never resumes what somebody else has suspended": (
            "run/test_handing_over.py::test_case_22_suspension_of_somebody_else_is_a_conflict_and_not_undone",
        ),
    },
    23: {
        "a fence that is lifted ends the deploy before its next write": (
            "run/test_transaction.py::test_case_23_fence_that_somebody_lifts_while_the_command_runs_ends_the_deploy",
            "e2e/test_deploy_lease.py::test_case_23_parent_that_undoes_our_suspension_ends_the_deploy",
        ),
        "its release does not fail over it": (
            "run/test_fencing.py::test_what_was_lifted_or_deleted_by_others_is_released",
        ),
        "children are suspended along with their parent": (
            "e2e/test_flux_real.py::test_resumed_parent_does_not_undo_the_suspension_of_its_child",
        ),
    },
    26: {
        "the mark survives a reconciling parent, placed by us and by the real kubectl": (
            "e2e/test_flux_real.py::test_case_26_what_a_reconciling_parent_leaves_of_a_suspension",
            "e2e/test_flux_real.py::test_case_26_placed_and_released_by_the_real_kubectl_under_our_name_survives_the_parent",
        ),
        "everything is written under a manager that Flux leaves alone": (
            "e2e/test_release_chain.py::test_case_26_fences_and_releases_are_written_under_a_manager_that_flux_leaves_alone",
            "core/test_assemble.py::test_case_26_foreign_suspension_names_who_suspended_it",
        ),
    },
    28: {
        "absent, null and empty are free; blank is malformed and held": (
            "core/test_assemble.py::test_case_28_lease_without_fields_is_no_fence",
            "core/test_assemble.py::test_case_28_blank_holder_is_malformed_and_held",
            "core/test_releases.py::test_case_28_free_lease_is_acquired_and_released_whatever_its_fields",
            "e2e/test_deploy_lease.py::test_case_28_lease_that_names_nobody_is_free",
        ),
        "a release never sends a zero": (
            "core/test_releases.py::test_case_28_lease_with_holder_and_no_times_is_freed_without_a_zero",
        ),
    },
    32: {
        "renewals keep their pace beside slow and throttled reads": (
            "e2e/test_deploy_lease.py::test_case_32_renewals_keep_their_pace_beside_slow_reads",
        ),
    },
    33: {
        "an answer that was lost is no loss": (
            "run/test_keeper.py::test_case_33_renewal_whose_answer_was_lost_is_no_loss",
            "run/test_keeper.py::test_case_33_late_copy_of_an_own_renewal_never_sets_the_heartbeat_back",
            "e2e/test_deploy_lease.py::test_case_33_lost_answers_of_create_and_renewals_are_no_loss",
            "run/test_fencing.py::test_case_33_placement_whose_answer_was_lost_is_adopted",
        ),
    },
    46: {
        "a heartbeat that moves beats a job that has ended": (
            "core/test_verdict.py::test_case_46_fresh_heartbeat_beats_a_job_that_github_calls_ended",
            "evidence/test_github_verdict.py::test_case_46_job_ended_on_a_self_hosted_runner_and_the_heartbeat_moves",
        ),
        "on a self-hosted runner the end of a job proves less": (
            "e2e/test_deploy_refused.py::test_case_46_job_that_ended_on_a_self_hosted_runner_is_no_proof",
            "e2e/test_recover_refusals.py::test_case_46_job_that_ended_on_a_self_hosted_runner_is_recovered_only_by_a_persons_choice",
        ),
        "an orphan at work is alive": (
            "evidence/test_process_real.py::test_case_46_payload_of_a_killed_parent_is_alive_until_it_ends",
        ),
    },
    47: {
        "INT, HUP and TERM each begin the release once": (
            "e2e/test_deploy_signals.py::test_case_47_signal_before_the_command_unwinds_and_tells_which",
        ),
        "neither a second signal nor a broken pipe aborts it": (
            "e2e/test_deploy_signals.py::test_second_signal_does_not_hurry_it",
            "e2e/test_deploy_signals.py::test_case_47_broken_pipe_does_not_abort_it",
            "e2e/test_deploy_signals.py::test_closed_streams_change_nothing",
        ),
        "with and without a shell between it and CI": (
            "e2e/test_deploy_signals.py::test_entry_process_by_exec_is_told_itself",
            "e2e/test_deploy_signals.py::test_death_of_the_parent_shell_in_ci_unwinds",
            "e2e/test_action.py::test_case_47_cancel_reaches_the_deploy_and_leaves_nothing_fenced",
        ),
        "after a KILL all of it is reported": (
            "e2e/test_deploy_killed.py::test_killed_before_a_write_leaves_what_recover_takes_away",
        ),
    },
    50: {
        "a token that dies makes only GitHub's word unknown": (
            "evidence/test_github_answers.py::test_case_50_token_that_expires_makes_only_githubs_word_unknown",
            "e2e/test_deploy_credentials.py::test_case_50_token_of_github_that_dies_during_a_deploy_harms_nobody",
        ),
        "all calls go to the configured host, and a foreign server is unknown": (
            "evidence/test_github_settings.py::test_case_50_enterprise_server_is_asked_below_its_path",
            "evidence/test_github_settings.py::test_case_50_run_recorded_on_another_server_is_unknown_and_gets_no_token",
            "evidence/test_github_answers.py::test_redirect_to_another_host_is_refused_and_said",
        ),
    },
    52: {
        "perfect counts of the generation before are no success": (
            "core/test_rollout_workloads.py::test_deployment_is_judged_by_its_present_generation_only",
            "core/test_rollout_workloads.py::test_read_that_is_older_than_the_deploy_waits",
        ),
        "nor is a generation that is no number": (
            "core/test_rollout_other.py::test_generation_that_is_none_is_unknown",
            "core/test_rollout_other.py::test_custom_kind_is_believed_where_it_says_which_generation_it_is_of",
        ),
    },
    54: {
        "what is missing on nodes that are down is a node problem, with their names": (
            "core/test_rollout_daemons.py::test_missing_pods_on_nodes_that_are_down_are_a_node_problem",
            "core/test_rollout_results.py::test_nodes_are_to_blame_only_where_nothing_else_is_wrong",
            "run/test_follow_real.py::test_daemon_set_with_a_node_down_and_one_cordoned_times_out_on_the_node_alone",
        ),
        "what crashes on good nodes is a failure": (
            "core/test_rollout_daemons.py::test_missing_pods_that_crash_on_good_nodes_are_a_failure",
        ),
        "a cordon stops no pod of a DaemonSet": (
            "run/test_nodes_drain.py::test_case_54_cordon_stops_no_daemon_set_pod",
            "run/test_follow_real.py::test_daemon_set_with_a_node_down_and_one_cordoned_times_out_on_the_node_alone",
        ),
        "no node wanted is a success": (
            "core/test_rollout_daemons.py::test_daemon_set_is_done_when_each_node_is",
        ),
    },
    55: {
        "a limit of 0 is no failure, a failed one is an end at once, a suspended one is neither": (
            "core/test_rollout_jobs.py::test_job_is_judged_by_its_own_end",
            "run/test_follow_real.py::test_job_that_backs_off_is_waited_for_until_it_gives_up",
        ),
        "one that was deleted is unknown unless it was seen complete": (
            "run/test_follow.py::test_job_deleted_after_it_was_complete_has_succeeded",
            "run/test_follow.py::test_object_deleted_by_somebody_is_unknown_soon",
        ),
    },
    57: {
        "a paused one ends as such": (
            "run/test_follow.py::test_paused_deployment_ends_at_once",
            "core/test_rollout_workloads.py::test_deployment_is_judged_by_its_present_generation_only",
        ),
        "a deadline that is over is a failure, unless it comes through in a moment": (
            "run/test_follow.py::test_progress_deadline_that_stays_is_a_failure",
            "run/test_follow.py::test_progress_deadline_that_is_overtaken_is_a_success",
        ),
    },
    59: {
        "no previous good state, and nothing is deleted": (
            "run/test_restoring.py::test_case_59_first_deploy_has_no_previous_good_state_and_nothing_is_deleted",
            "run/test_after_failure.py::test_case_59_first_deploy_that_fails_has_no_previous_good_state_and_deletes_nothing",
            "e2e/test_rollback.py::test_case_59_first_deploy_has_nothing_to_roll_back_to",
        ),
        "the words of Stalled are quoted": (
            "core/test_rollout_flux.py::test_stalled_object_quotes_what_ready_says_as_well",
        ),
    },
    61: {
        "a render that is empty or has shrunk removes nothing, and counts are shown": (
            "core/test_applyset.py::test_case_61_prune_is_withheld_on_a_render_that_lost_too_much",
            "e2e/test_deploy_applied.py::test_case_61_prune_takes_what_is_no_longer_rendered_and_is_withheld_on_too_little",
        ),
        "nor does a view that ends half-way": (
            "run/test_pruning.py::test_case_61_list_that_fails_half_way_withholds_the_prune_and_shrinks_nothing",
        ),
        "going back keeps what the set has come to hold": (
            "core/test_restore.py::test_parent_of_an_applyset_goes_on_to_name_what_the_set_has_come_to_hold",
            "core/test_restore.py::test_object_that_was_not_there_before_stays_and_is_named",
        ),
    },
    62: {
        "a paused Deployment is a blocker that is told at once": (
            "run/test_restoring.py::test_case_62_paused_deployment_is_a_blocker_that_is_told_at_once",
            "core/test_restore.py::test_paused_deployment_is_told_unless_the_restore_ends_the_pause",
        ),
        "what was recorded goes back, without any old ReplicaSet": (
            "e2e/test_rollback_rollout.py::test_case_62_deployment_that_crash_loops_is_back_without_any_history_and_by_the_verb_a_paused_one_is_told",
        ),
    },
    64: {
        "a restore whose lease is gone or whose target has moved on does nothing": (
            "run/test_restoring.py::test_case_64_target_that_another_run_has_deployed_to_since_is_left_alone",
            "run/test_restoring.py::test_case_64_restore_whose_lease_is_lost_writes_nothing_more",
            "run/test_after_failure.py::test_case_64_deploy_that_lost_its_lease_leaves_what_was_deployed_since_alone",
            "core/test_past.py::test_case_64_later_run_that_may_have_changed_the_target_supersedes",
        ),
    },
    67: {
        "reads, writes and watches without an answer each end within their own time": (
            "kube/test_transport.py::test_case_67_a_server_that_accepts_and_says_nothing_is_left_in_time",
            "kube/test_transport_write.py::test_case_67_a_write_without_an_answer_ends_in_time",
            "kube/test_transport_watch.py::test_case_67_a_watch_that_falls_silent_is_left_in_time",
            "run/test_follow_watch.py::test_watch_that_nothing_comes_through_is_given_up_for_polls",
        ),
        "a list that says nothing is named, and the rest is shown": (
            "e2e/test_incomplete.py::test_case_67_one_silent_list_is_named_and_the_rest_is_shown",
        ),
        "the heartbeat waits for nobody": (
            "e2e/test_deploy_lease.py::test_case_32_renewals_keep_their_pace_beside_slow_reads",
            "run/test_keeper.py::test_server_that_is_away_is_unreachable",
        ),
        "a release without an answer is tried again and named": (
            "e2e/test_deploy_lease.py::test_case_67_server_that_never_answers_a_release_is_reported_in_time",
        ),
    },
    69: {
        "credentials are fetched anew before they end and once after a refusal, by the heartbeat too": (
            "kube/test_exec_renewal.py::test_case_69_a_token_is_renewed_before_it_ends",
            "kube/test_exec_renewal.py::test_case_69_after_a_401_the_plugin_runs_once",
            "e2e/test_deploy_credentials.py::test_case_69_token_that_is_revoked_during_a_deploy_is_fetched_anew_by_all_of_it",
        ),
        "a plugin that is missing, fails or prompts is named, and nothing hangs": (
            "e2e/test_deploy_credentials.py::test_case_69_plugin_that_is_not_there_is_said_and_nothing_was_changed",
            "e2e/test_deploy_credentials.py::test_case_69_plugin_that_fails_during_a_deploy_is_named_and_so_is_what_stays",
            "kube/test_exec.py::test_case_69_a_plugin_that_prompts_gets_no_stdin_and_does_not_hang",
        ),
    },
}

OF_DEPLOYS = (2, 3, 4, 6, 10, 13, 18, 20, 23, 28, 32, 33, 46, 47, 50, 67, 69)
OF_FOLLOWING = (9, 22, 52, 54, 55, 57, 59, 61, 62, 64)
OF_FLUX = (26,)


@pytest.mark.parametrize("case", [*OF_DEPLOYS, *OF_FOLLOWING, *OF_FLUX])
def test_case_has_tests_that_exist(case: int) -> None:
    """Each part of what must be so has at least one."""
    parts = CASES[case]
    assert all(parts.values()), [what for what, tests in parts.items() if not tests]
    assert missing(test for tests in parts.values() for test in tests) == []


def test_every_case_of_the_table_is_asked_for() -> None:
    """A number that was mistyped would be looked at by nobody."""
    assert sorted(CASES) == sorted((*OF_DEPLOYS, *OF_FOLLOWING, *OF_FLUX))
