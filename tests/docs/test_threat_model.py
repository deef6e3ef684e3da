"""Each claim about private data at rest and about forgetting is tested, and this says by which test.

Whoever adds a row to one of these tables names here the tests that would fail if the row were not true.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"
THREATS, STORED = "explanation/threat-model.md", "reference/what-is-stored.md"

FORGETTING, ENCRYPTION = "memory/test_forgetting.py", "memory/test_encryption.py"
ENCRYPT, KEYS, SYNC = "cli/test_encrypt.py", "encryption/test_keys.py", "sync/test_forgetting.py"
BY_USER, USER_KEYS = "memory/test_backup_by_user.py", "memory/test_user_keys.py"
BLIND, STATEMENTS = "memory/test_blind.py", "memory/test_blind_statements.py"

# By page and heading: the beginning of each row, with the tests of what it says, as file and function.
CLAIMS: dict[tuple[str, str], dict[str, list[tuple[str, str]]]] = {
    (THREATS, "Forgetting"): {
        "someone reads a deleted memory": [
            (FORGETTING, "test_200_words_of_every_feature_are_found_before_and_never_after"),
            (FORGETTING, "test_pruned_memories_can_be_read_nowhere"),
            (FORGETTING, "test_a_removed_user_leaves_nothing_and_can_begin_anew"),
        ],
        "… in the log beside it": [
            (FORGETTING, "test_a_log_that_another_program_reads_is_named_and_emptied_later"),
            ("cli/test_forgetting.py", "test_a_program_that_reads_meanwhile_is_named"),
        ],
        "… in a copy that Shepherd made": [
            (FORGETTING, "test_what_was_appended_goes_with_its_memory_and_the_rest_stays"),
            (FORGETTING, "test_kept_conversations_of_the_user_are_removed_with_every_forgetting"),
            ("cli/test_forgetting.py", "test_each_step_removes_what_it_names_until_the_word_is_nowhere"),
            ("cli/test_forgetting.py", "test_bytes_of_what_is_beside_the_database_are_overwritten"),
        ],
        "the process is killed while": [
            (FORGETTING, "test_nothing_is_left_by_a_process_that_is_killed_after_it_forgot"),
            (FORGETTING, "test_the_next_process_finishes_what_a_killed_one_began"),
        ],
        "it is learned or saved again": [
            (FORGETTING, "test_a_waiting_message_is_not_learned_from_after_its_memory_was_forgotten"),
            (FORGETTING, "test_a_program_that_ran_before_does_not_save_what_was_deleted"),
            (
                "test_overwriting.py",
                "test_a_conversation_that_is_forgotten_while_it_is_written_is_overwritten",
            ),
        ],
        "you can't tell whether it worked": [
            ("cli/test_forgetting.py", "test_each_step_removes_what_it_names_until_the_word_is_nowhere"),
            ("cli/test_forgetting.py", "test_an_audit_opens_what_the_key_of_the_memory_opens"),
            ("cli/test_forgetting.py", "test_a_synced_text_is_found_until_the_next_sync"),
        ],
    },
    (THREATS, "Deleted users in backups"): {
        "someone with an old backup": [
            (BY_USER, "test_a_backup_from_before_a_deletion_does_not_give_the_user_back"),
            (USER_KEYS, "test_a_dump_from_before_a_deletion_does_not_give_the_user_back"),
        ],
        "a program that has been running": [
            (USER_KEYS, "test_a_process_does_not_go_on_with_a_key_that_another_one_has_destroyed")
        ],
        "two programs give a new user": [(USER_KEYS, "test_two_first_writers_of_a_user_make_one_key")],
        "a key is damaged, or moved": [
            (USER_KEYS, "test_a_damaged_key_is_said_so_and_harms_nobody_else"),
            (USER_KEYS, "test_keys_that_a_server_exchanges_are_refused"),
        ],
        "the keys of another memory": [
            (BY_USER, "test_what_cannot_be_done_is_refused_and_leaves_everything")
        ],
        "a memory that was restored": [
            (BY_USER, "test_keys_that_a_memory_restored_from_an_older_backup_does_not_know_are_kept")
        ],
    },
    (THREATS, "A stolen disk"): {
        "someone reads your disk": [
            (ENCRYPT, "test_a_search_of_all_files_finds_nothing_while_the_memory_is_encrypted"),
            (ENCRYPTION, "test_200_words_of_every_feature_are_in_no_file_of_a_killed_process"),
        ],
        "someone guesses the passphrase": [
            (KEYS, "test_passphrase_is_stretched_by_argon2id"),
            (KEYS, "test_a_memory_whose_key_file_is_lost_needs_the_same_cost_forever"),
        ],
        "someone changes bytes": [
            ("native/test_store_encrypted.py", "test_changed_byte_of_an_encrypted_page_is_noticed")
        ],
        "the key ends up in a file": [
            (KEYS, "test_key_file_holds_all_but_the_key"),
            (KEYS, "test_failing_command_is_reported_without_its_output"),
        ],
        "the key ends up in swap space": [
            (KEYS, "test_key_is_locked_and_not_dumped_or_inherited"),
            (ENCRYPT, "test_doctor_says_when_the_key_is_not_locked"),
        ],
        "a crash or a full disk": [
            ("memory/test_encryption_kills.py", "test_killed_conversions_leave_one_readable_database"),
            (ENCRYPTION, "test_full_disk_changes_nothing"),
        ],
        "the file is in a place": [
            ("memory/test_blind_file.py", "test_a_new_file_never_has_a_word_and_recall_finds_the_same"),
            ("memory/test_blind_file.py", "test_an_unencrypted_file_is_refused_and_stays_as_it_is"),
        ],
        "another program writes": [
            (ENCRYPTION, "test_memory_in_use_is_not_converted"),
            ("memory/test_encryption_kills.py", "test_writes_of_others_are_never_lost_to_a_conversion"),
        ],
    },
    (THREATS, "A server that must not read"): {
        "someone who runs the server": [(BLIND, "test_a_server_never_gets_a_word_unless_it_may_read")],
        "results are worse": [
            (BLIND, "test_any_history_leads_to_the_same_results_on_both_engines_and_blind")
        ],
        "the server shows you a text": [(BLIND, "test_texts_that_were_changed_or_moved_are_not_shown")],
        "the server guesses a word": [
            ("encryption/test_blinding.py", "test_words_are_hashes_with_the_key"),
            (BLIND, "test_the_first_word_of_a_speaker_is_no_number_that_can_be_guessed"),
        ],
        "two users have the same": [(BLIND, "test_equal_words_of_two_users_differ")],
        "a blind memory is opened": [
            (BLIND, "test_blind_and_readable_memories_are_not_mixed"),
            (BLIND, "test_a_missing_and_a_wrong_key_are_said_so_and_nothing_changes"),
        ],
        "something is stored in tables": [
            (BLIND, "test_features_that_are_not_covered_are_refused_and_store_nothing"),
            (STATEMENTS, "test_every_column_with_text_is_hidden_refused_or_known_to_be_readable"),
        ],
    },
    (THREATS, "A shared folder"): {
        "someone reads the folder": [
            (SYNC, "test_nothing_in_the_folder_can_be_read_without_the_passphrase"),
            ("sync/test_key_file.py", "test_the_passphrase_opens_the_same_folder"),
        ],
        "someone changes a file": [
            ("sync/test_folders.py", "test_an_own_segment_cannot_pass_for_another"),
            ("sync/test_folders.py", "test_a_damaged_segment_costs_a_warning_and_other_machines_are_read"),
        ],
        "what you forgot comes back": [
            (SYNC, "test_an_edit_does_not_bring_back_what_was_forgotten_elsewhere"),
            ("sync/test_folders.py", "test_a_restored_backup_does_not_bring_back_what_was_forgotten"),
        ],
        "what you forgot stays": [
            (SYNC, "test_forgotten_texts_are_in_no_file_of_any_machine"),
            (SYNC, "test_what_waits_for_the_folder_is_forgotten_too_and_the_rest_is_written_later"),
        ],
        "a sync is killed": [
            ("sync/test_convergence.py", "test_all_machines_export_the_same_in_the_end"),
            ("sync/test_folders.py", "test_a_torn_segment_is_read_up_to_its_last_whole_frame"),
        ],
    },
    (STORED, "While the memory is encrypted"): {
        "`memory.db`, `memory.db-wal`": [
            ("native/test_store_encrypted.py", "test_nothing_can_be_read_in_an_encrypted_file_and_its_log"),
            (ENCRYPTION, "test_nothing_can_be_read_while_the_memory_is_used"),
        ],
        "`memory.db-key`": [(KEYS, "test_key_file_holds_all_but_the_key")],
        "`memory.db-hot/`": [(ENCRYPTION, "test_saved_index_is_sealed_and_used")],
        "`memory.db-history`": [
            (ENCRYPT, "test_a_search_of_all_files_finds_nothing_while_the_memory_is_encrypted"),
            (
                "cli/test_encrypt_interrupted.py",
                "test_a_kill_at_any_moment_leaves_each_line_of_the_history",
            ),
        ],
        "`~/.cache/shepherd/conversations/`": [
            (ENCRYPT, "test_a_search_of_all_files_finds_nothing_while_the_memory_is_encrypted")
        ],
        "copies by `shepherd memory backup`,": [(ENCRYPTION, "test_backup_is_encrypted_and_restored")],
        "copies by [`shepherd memory backup --keys": [
            (BY_USER, "test_a_backup_from_before_a_deletion_does_not_give_the_user_back")
        ],
        "`memory.db.before-migration`": [
            (ENCRYPT, "test_what_is_still_readable_is_named"),
            (ENCRYPT, "test_logs_and_leftovers_are_deleted_and_backups_are_named"),
        ],
        "lines typed with `--nomemory`": [
            (ENCRYPT, "test_without_the_memory_nothing_that_is_said_is_written")
        ],
        "`mcp-NAME.log`": [
            ("tools/test_mcp_servers.py", "test_what_a_program_says_of_itself_is_in_a_log_if_one_is_kept"),
            (ENCRYPT, "test_logs_and_leftovers_are_deleted_and_backups_are_named"),
        ],
        "`crash-….log`": [(ENCRYPT, "test_a_crash_log_has_no_message_while_a_memory_is_encrypted")],
        "files uploaded": [(KEYS, "test_while_a_key_is_known_scratch_files_stay_in_main_memory")],
        "temporary tables": [("native/test_store_encrypted.py", "test_temporary_tables_are_in_main_memory")],
        "`chars-per-token.json`": [
            (ENCRYPT, "test_a_search_of_all_files_finds_nothing_while_the_memory_is_encrypted")
        ],
        "exports by `memory export`": [
            (
                "cli/test_encrypted_exports.py",
                "test_an_encrypted_export_shows_nothing_and_is_imported_with_its_key",
            ),
            (ENCRYPT, "test_a_search_of_all_files_finds_nothing_while_the_memory_is_encrypted"),
        ],
        # They are said to be readable.
        "what you save of `chat --json`": [],
        "`config.json`, `mcp.json`": [],
    },
}


def rows_of(page: str, heading: str) -> list[str]:
    """Return the rows of the tables under a heading, without the marks at their beginning."""
    section = (DOCS / page).read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| *(.+)$", section, re.MULTILINE)
    return [row for row in rows if not row.startswith(("---", "threat |", "path |"))]


@lru_cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("place", CLAIMS, ids=lambda place: place[1])
def test_each_claim_has_its_tests(place: tuple[str, str]) -> None:
    claims, rows = CLAIMS[place], rows_of(*place)

    assert rows
    assert [row[:60] for row in rows if not row.startswith(tuple(claims))] == []
    assert [start for start in claims if not any(row.startswith(start) for row in rows)] == []
    named = {test for tests in claims.values() for test in tests}
    assert sorted(test for test in named if test[1] not in functions_in(test[0])) == []
