# Build the package into .venv, editable.
build:
    tools/environment.py --extras test

# Run the tests; arguments are pytest's.
test *arguments:
    tools/test {{arguments}}

# Lint and type-check as the CI does.
lint: build
    .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/python -m mypy

# Run the benches; arguments are pytest's.
bench *arguments: build
    .venv/bin/python -m pytest bench --benchmark-only {{arguments}}
