"""Why some of llama.cpp's server tests fail here, by file and function; run.py needs a reason for each."""

from __future__ import annotations

__all__ = ["REASONS"]

_WORDS = "the test expects the tokens of a particular model"
_SITES = "pages of other sites are refused with 403, unless `server_origins` names them"
_STREAMS = "there is no `/v1/stream`; clients can rejoin responses that run in the background"
_ROLE = "the first chunk contains only the role; llama.cpp's also contains null as the content"
_STATUS = "pictures that a model can't read are refused with 400, not 500"
_VECTORS = "each text has one vector, not one for each token"

REASONS = {
    "test_basic::test_server_slots": "`/slots` can't be turned off; it shows nobody's text",
    "test_basic::test_server_model_aliases_and_tags": "models have no tags",
    "test_chat_completion::test_chat_completion_cached_tokens": _WORDS,
    "test_chat_completion::test_chat_completion_stream": _ROLE,
    "test_chat_completion::test_chat_completion_with_timings_per_token": _ROLE,
    "test_chat_completion::test_chat_template_assistant_prefill": (
        "the parts of a text are joined by a line break, not by an empty line"
    ),
    "test_chat_completion::test_return_progress": (
        "the progress of the prompt is reported ten times a second, not after each batch"
    ),
    "test_compat_anthropic::test_anthropic_empty_messages": "a message is required, as in Anthropic's API",
    "test_compat_anthropic::test_anthropic_tool_result_with_image": _STATUS,
    "test_compat_anthropic::test_anthropic_vision_base64_with_multimodal_model": (
        "the test downloads its picture from the hub"
    ),
    "test_compat_anthropic::test_anthropic_vision_format_accepted": _STATUS,
    "test_compat_oai_responses::test_responses_stream_with_llama_telemetry": (
        "events of responses have no `timings`; streams of `/v1/chat/completions` do"
    ),
    "test_embedding::test_embedding_pooling_none": _VECTORS,
    "test_embedding::test_embedding_pooling_none_oai": _VECTORS,
    "test_embedding::test_embedding_usage_multiple": _WORDS,
    "test_security::test_access_static_assets_without_api_key": "Shepherd's page has other files",
    "test_security::test_cors_options": _SITES,
    "test_security::test_cors_origins_defaults_to_localhost_with_tools_enabled": _SITES,
    "test_security::test_cors_origins_localhost_rejects": _SITES,
    "test_security::test_cors_proxy_only_forwards_explicit_proxy_headers": "Shepherd's page has no proxy",
    "test_security::test_local_media_file": "pictures are never read from files of the server",
    "test_stream::test_stream_resume_and_stop_with_slashed_model_name": _STREAMS,
    "test_stream::test_stream_resumes_after_reload_during_model_load": _STREAMS,
    "test_stream::test_stream_stop_during_model_load": _STREAMS,
}
