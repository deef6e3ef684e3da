"""Why some of llama.cpp's server tests fail here, by file and function; run.py needs a reason for each."""

from __future__ import annotations

__all__ = ["REASONS"]

_WORDS = "it expects the tokens of one model"
_SITES = "pages of other sites are refused, unless `server_origins` names them"
_PICTURES = "it needs a model that reads pictures"
_TIMINGS = "answers of OpenAI's APIs have no `timings`"
_STREAMS = "there is no `/v1/stream`; responses in the background can be joined again"
_VERBOSE = "there is no `__verbose`; `/apply-template` returns the prompt"
_OVERFLOW = "the error has OpenAI's type and code, `context_length_exceeded`"
_ROLE = "the first chunk has an empty text beside the role, as at OpenAI"
_FINGERPRINT = "answers have no `system_fingerprint`"
_PREFILL = "the last message must be the user's or a tool's"
_THOUGHTS = "thoughts that a client sends back are not read"
_COMPLETIONS = "`/completions` is OpenAI's, as `/v1/completions`; llama.cpp's is `/completion`"
_AFTER = "log-probabilities are of the model's own logits, before sampling"

REASONS = {
    "test_basic::test_server_multiple_addresses": "a server listens on one address",
    "test_basic::test_server_props": "clients don't learn the path of a file",
    "test_basic::test_server_slots": "`/slots` can't be turned off; it has nobody's text",
    "test_basic::test_no_ui": "the page can't be turned off",
    "test_basic::test_server_model_aliases_and_tags": "models have no tags, and aliases are not listed",
    "test_basic::test_load_split_model": _WORDS,
    "test_chat_completion::test_apply_chat_template": "a template can't be named when the server starts",
    "test_chat_completion::test_chat_completion": f"{_WORDS}, and null as `model`",
    "test_chat_completion::test_chat_completion_cached_tokens": _WORDS,
    "test_chat_completion::test_chat_completion_stream": _ROLE,
    "test_chat_completion::test_chat_completion_with_openai_library": _FINGERPRINT,
    "test_chat_completion::test_chat_completion_with_timings_per_token": _TIMINGS,
    "test_chat_completion::test_chat_completions_token_count": (
        "tokens are counted by `/v1/responses/input_tokens` and `/v1/messages/count_tokens`"
    ),
    "test_chat_completion::test_chat_template": _VERBOSE,
    "test_chat_completion::test_chat_template_assistant_prefill": _PREFILL,
    "test_chat_completion::test_chat_template_continue_final_message_vllm_compat": _PREFILL,
    "test_chat_completion::test_completion_with_grammar": "a grammar can be sent to `/completion`",
    "test_chat_completion::test_completion_with_json_schema": "schemas come in `response_format`",
    "test_chat_completion::test_context_size_exceeded": _OVERFLOW,
    "test_chat_completion::test_context_size_exceeded_stream": _OVERFLOW,
    "test_chat_completion::test_logprobs": "part of a character is written as `\\xe2`, as at OpenAI",
    "test_chat_completion::test_logprobs_stream": _ROLE,
    "test_chat_completion::test_return_progress": "streams have no progress of the prompt",
    "test_chat_completion::test_verbose_debug": _VERBOSE,
    "test_compat_anthropic::test_anthropic_empty_messages": "a conversation has a message, as at Anthropic",
    "test_compat_anthropic::test_anthropic_thinking_history_in_count_tokens": _THOUGHTS,
    "test_compat_anthropic::test_anthropic_thinking_history_in_template": _THOUGHTS,
    "test_compat_anthropic::test_anthropic_tool_result_with_image": "pictures are refused with 400, not 500",
    "test_compat_anthropic::test_anthropic_vision_base64_with_multimodal_model": _PICTURES,
    "test_compat_anthropic::test_anthropic_vision_format_accepted": "pictures are refused with 400, not 500",
    "test_compat_oai_responses::test_responses_stream_with_llama_telemetry": _TIMINGS,
    "test_completion::test_completion": _WORDS,
    "test_completion::test_completion_response_fields": "answers always have all fields",
    "test_completion::test_completion_stream": "parts of a stream have no ids of tokens",
    "test_completion::test_completion_unified": _WORDS,
    "test_completion::test_completion_with_openai_library": _FINGERPRINT,
    "test_completion::test_completion_with_tokens_input": "one list can't have texts and ids of tokens",
    "test_completion::test_json_prompt_no_mtmd": "a prompt is a text or ids of tokens, no object",
    "test_completion::test_n_probs_post_backend_sampling": _AFTER,
    "test_completion::test_n_probs_post_sampling": _AFTER,
    "test_completion::test_n_probs_stream": "a part of a stream can have several tokens",
    "test_embedding::test_embedding_content_text_same_as_string": "texts are strings, not parts",
    "test_embedding::test_embedding_error_prompt_too_long": "the error has other words",
    "test_embedding::test_embedding_mixed_input": "texts are embedded, no ids of tokens",
    "test_embedding::test_embedding_pooling_none": "each text has one vector",
    "test_embedding::test_embedding_pooling_none_oai": "each text has one vector",
    "test_embedding::test_embedding_usage_multiple": _WORDS,
    "test_embedding::test_embedding_usage_single": _WORDS,
    "test_rerank::test_rerank": "it expects the order of one model",
    "test_rerank::test_rerank_tei_format": "it expects the order of one model",
    "test_rerank::test_rerank_usage": "the answer has no `usage`",
    "test_security::test_access_static_assets_without_api_key": "the page has other files",
    "test_security::test_correct_api_key": _COMPLETIONS,
    "test_security::test_correct_api_key_anthropic_header": _COMPLETIONS,
    "test_security::test_cors_options": _SITES,
    "test_security::test_cors_origins_defaults_to_localhost_with_tools_enabled": _SITES,
    "test_security::test_cors_origins_localhost_reflects": _SITES,
    "test_security::test_cors_origins_localhost_rejects": _SITES,
    "test_security::test_cors_proxy_only_forwards_explicit_proxy_headers": "there is no proxy for the page",
    "test_security::test_local_media_file": _PICTURES,
    "test_stream::test_stream_resume_and_stop_with_slashed_model_name": _STREAMS,
    "test_stream::test_stream_resumes_after_reload_during_model_load": _STREAMS,
    "test_stream::test_stream_stop_during_model_load": _STREAMS,
}
