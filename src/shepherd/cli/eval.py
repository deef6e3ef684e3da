"""`shepherd eval`: measure the quality of recall, on labelled conversations or your own memory."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.cli.parsing import Parser, add_common_options, add_setting_option, loaded_settings
from shepherd.commands.screen import Screen
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.evaluation import Answered

__all__ = ["build_parser", "execute"]

_EXAMPLES = """\
FILE is a corpus (JSON lines of conversations with questions, or LongMemEval's JSON), an export of
`shepherd memory export` with --questions, or a run that --output wrote.

examples:
  shepherd eval corpus.jsonl --output before.jsonl       measure, and save every result
  shepherd eval corpus.jsonl --baseline before.jsonl     compare, with the significance of differences
  shepherd eval export.jsonl --questions mine.jsonl      on your own memory
  shepherd eval corpus.jsonl --tune                      choose weights, with cross-validation
"""


def build_parser() -> Parser:
    """Build the parser of `shepherd eval`."""
    parser = Parser(
        prog="shepherd eval", description="Measure recall on labelled conversations.", epilog=_EXAMPLES
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="corpus, export or run (see below)")
    parser.add_argument(
        "--questions", metavar="FILE", type=Path, help="file with questions about an exported memory"
    )
    parser.add_argument(
        "--output", metavar="RUN", type=Path, help="write a JSON line for each question to this file"
    )
    parser.add_argument("--baseline", metavar="RUN", type=Path, help="compare with this run, paired")
    parser.add_argument(
        "--rows",
        choices=("turns", "exchanges"),
        default="turns",
        help="text that becomes one memory: a turn, or a message with its answer (default: turns)",
    )
    parser.add_argument("--no-dates", action="store_true", help="don't add the date of a turn to its text")
    parser.add_argument("--tune", action="store_true", help="choose the weights of the ranking")
    add_setting_option(parser, "--recency-floor", "rag_recency_floor", "SHARE")
    add_setting_option(parser, "--vectors", "memory_vectors", "MODEL")
    add_setting_option(parser, "--vectors-weight", "memory_vectors_weight", "SHARE")
    add_common_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run, or read a run, and print the measures."""
    from shepherd.evaluation import is_run, read_run, write_run

    if arguments.tune:
        _tune(arguments, screen)
        return 0
    results = read_run(arguments.file) if is_run(arguments.file) else _run(arguments, screen)
    if not results:
        raise UsageError(
            f"{arguments.file}: a run without questions", hint="name a run or a corpus that has some"
        )
    if arguments.output is not None:
        write_run(arguments.output, results)
    report = _report(results)
    if arguments.baseline is not None:
        report["comparison"] = _comparison(results, read_run(arguments.baseline), arguments.baseline)
    if arguments.json:
        screen.json(report)
    else:
        _show(report, screen)
    return 0


def _run(arguments: Namespace, screen: Screen) -> list[Answered]:
    from shepherd.evaluation import evaluate, read_corpus
    from shepherd.factory import vector_settings

    config = loaded_settings(arguments).config
    return evaluate(
        read_corpus(arguments.file, arguments.questions),
        # The texts of an export are as they were stored.
        dates=not arguments.no_dates and arguments.questions is None,
        rows=arguments.rows,
        recency_floor=config.rag_recency_floor,
        vectors=vector_settings(config),
        progress=screen.transient,
    )


def _report(results: list[Answered]) -> dict[str, object]:
    from shepherd.evaluation import METRICS, interval

    categories = [category for category in dict.fromkeys(result.category for result in results) if category]
    groups = {"all": results}
    groups |= {name: [result for result in results if result.category == name] for name in categories}
    times = sorted(result.microseconds for result in results)
    return {
        "questions": len(results),
        "measures": {
            name: {
                "questions": len(group),
                **{
                    metric: [one.mean, one.low, one.high]
                    for metric in METRICS
                    for one in [interval([result.metrics[metric] for result in group])]
                },
            }
            for name, group in groups.items()
        },
        "p50_us": times[len(times) // 2],
        "p99_us": times[len(times) * 99 // 100],
    }


def _comparison(results: list[Answered], baseline: list[Answered], path: Path) -> dict[str, object]:
    from shepherd.evaluation import METRICS, compare

    known = {(one.conversation, one.question, tuple(one.evidence)): one for one in baseline}
    pairs = [
        (result, known[key])
        for result in results
        if (key := (result.conversation, result.question, tuple(result.evidence))) in known
    ]
    if not pairs:
        raise UsageError(f"{path}: none of its questions was asked here", hint="compare runs of one corpus")
    compared = {
        metric: compare(
            [one.metrics[metric] for one, _ in pairs], [other.metrics[metric] for _, other in pairs]
        )
        for metric in METRICS
    }
    return {
        "questions": len(pairs),
        **{
            metric: {
                "difference": [one.difference.mean, one.difference.low, one.difference.high],
                "p": one.p_value,
            }
            for metric, one in compared.items()
        },
    }


def _show(report: dict[str, object], screen: Screen) -> None:
    from shepherd.evaluation import METRICS

    measures = report["measures"]
    assert isinstance(measures, dict)
    rows = [
        [name, values["questions"], *(_with_interval(metric, values[metric]) for metric in METRICS)]
        for name, values in measures.items()
    ]
    screen.table(["category", "questions", *METRICS], rows)
    times = f"p50 {report['p50_us']:.0f} µs, p99 {report['p99_us']:.0f} µs"
    screen.note(f"95 % intervals over questions; a search took {times}")
    compared = report.get("comparison")
    if isinstance(compared, dict):
        screen.print()
        screen.table(
            ["against the baseline", "difference", "p"],
            [
                [
                    metric,
                    _with_interval(metric, compared[metric]["difference"], sign="+"),
                    f"{compared[metric]['p']:.3f}",
                ]
                for metric in METRICS
            ],
        )


def _with_interval(metric: str, values: list[float], sign: str = "") -> str:
    """Return recall in percent, the others as shares: `74.1 (71.5 to 76.6)`."""
    factor, digits = (100.0, 1) if metric.startswith("recall") else (1.0, 3)
    mean, low, high = (format(factor * value, f"{sign}.{digits}f") for value in values)
    return f"{mean} ({low} to {high})"


def _tune(arguments: Namespace, screen: Screen) -> None:
    from shepherd._native.rank import DEFAULT_WEIGHTS
    from shepherd.evaluation import METRICS, evaluate, interval, read_corpus, tune

    corpus = read_corpus(arguments.file, arguments.questions)
    options = {"rows": arguments.rows, "dates": not arguments.no_dates and arguments.questions is None}
    folds = tune(corpus, progress=screen.transient, **options)
    unseen = [result for fold in folds if fold.left_out for result in fold.results]
    scored = {
        "default": evaluate(corpus, progress=screen.transient, **options),
        "chosen without the conversation asked": unseen,
        "fitted to all": folds[-1].results,
    }
    table = {
        name: {metric: interval([one.metrics[metric] for one in results]).mean for metric in METRICS}
        for name, results in scored.items()
    }
    chosen = {fold.left_out or "none": fold.weights._asdict() for fold in folds}
    if arguments.json:
        screen.json({"measures": table, "weights": {"default": DEFAULT_WEIGHTS._asdict(), **chosen}})
        return
    screen.table(
        ["weights", *METRICS],
        [[name, *(f"{values[metric]:.4f}" for metric in METRICS)] for name, values in table.items()],
    )
    screen.print()
    names = DEFAULT_WEIGHTS._fields
    rows = [[f"without {name}", *(weights[field] for field in names)] for name, weights in chosen.items()]
    screen.table(["chosen", *names], [["default", *DEFAULT_WEIGHTS], *rows])
