# Build the package into .venv, editable.
build:
    tools/environment.py --extras test

# Run the tests; arguments are pytest's.
test *arguments:
    tools/test {{arguments}}

# Lint, types and stubs, as the CI does.
lint:
    tools/lint

# Run the benches with all their peers; arguments are pytest's.
bench *arguments:
    tools/environment.py --extras test bench
    .venv/bin/python -m pytest bench --benchmark-only -s {{arguments}}
