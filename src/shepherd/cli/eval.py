"""`shepherd eval`: measure the quality of recall, on labelled conversations or your own memory."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import Parser, add_common_options, add_setting_option, loaded_settings
from shepherd.commands.screen import Screen, shortened
from shepherd.errors import UsageError
from shepherd.wording import inflected

if TYPE_CHECKING:
    from shepherd.evaluation import Answered, Conversation

__all__ = ["build_parser", "execute"]

# Questions that a warning names, and how much of each.
_SHOWN_QUESTIONS = 5
_SHOWN_CHARS = 60

_EXAMPLES = """\
FILE is a corpus (JSON lines of conversations with questions, or LongMemEval's JSON), an export of
`shepherd memory export` with --questions, or a run that --output wrote. If you name several files, each is
measured, and the lowest value of each measure is shown.

examples:
  shepherd eval corpus.jsonl --output before.jsonl       measure, and save every result
  shepherd eval corpus.jsonl --baseline before.jsonl     compare, with the significance of differences
  shepherd eval friends.jsonl assistant.jsonl            measure two corpora
  shepherd eval corpus.jsonl --relevance                 what a threshold keeps, and what it drops
  shepherd eval export.jsonl --questions mine.jsonl      on your own memory
  shepherd eval corpus.jsonl --tune                      choose weights, with cross-validation
"""


def build_parser() -> Parser:
    """Build the parser of `shepherd eval`."""
    parser = Parser(
        prog="shepherd eval", description="Measure recall on labelled conversations.", epilog=_EXAMPLES
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="corpus, export or run (see below)"
    )
    parser.add_argument(
        "--questions", metavar="FILE", type=Path, help="file with questions about an exported memory"
    )
    parser.add_argument(
        "--output", metavar="RUN", type=Path, help="write a JSON line for each question to this file"
    )
    parser.add_argument(
        "--baseline", metavar="RUN", type=Path, help="compare with this run, question by question"
    )
    parser.add_argument(
        "--rows",
        choices=("turns", "exchanges"),
        default="turns",
        help="text that becomes one memory: a turn, or a message with its answer (default: turns)",
    )
    parser.add_argument("--no-dates", action="store_true", help="don't add the date of a turn to its text")
    parser.add_argument(
        "--relevance",
        action="store_true",
        help="also ask the questions of other conversations, and show what thresholds of relevance keep",
    )
    parser.add_argument("--tune", action="store_true", help="choose the weights of the ranking")
    add_setting_option(parser, "--recency-floor", "rag_recency_floor", "SHARE")
    add_setting_option(parser, "--vectors", "memory_vectors", "MODEL")
    add_setting_option(parser, "--vectors-weight", "memory_vectors_weight", "SHARE")
    add_common_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run, or read runs, and print the measures."""
    from shepherd.evaluation import check_output, read_run, write_run

    files: list[Path] = arguments.files
    baseline = None if arguments.baseline is None else read_run(arguments.baseline)
    if arguments.output is not None:
        check_output(arguments.output, filter(None, [*files, arguments.questions, arguments.baseline]))
    if len(files) > 1 and (arguments.tune or arguments.questions is not None):
        option = "--tune" if arguments.tune else "--questions"
        raise UsageError(f"{option} takes one file, not {len(files)}", hint="run it for each file")
    if arguments.tune:
        _tune(arguments, screen)
        return 0
    results = [result for file in files for result in _results(file, arguments, screen)]
    if arguments.output is not None:
        write_run(arguments.output, results)
    corpora = list(dict.fromkeys(result.corpus for result in results))
    reports = {}
    for corpus in corpora:
        of_corpus = [result for result in results if result.corpus == corpus]
        reports[corpus] = _report(of_corpus)
        if baseline is not None:
            reports[corpus]["comparison"] = _comparison(of_corpus, baseline, arguments.baseline)
    if arguments.relevance:
        for file in files:
            reports[str(file) if len(files) > 1 else corpora[0]]["relevance"] = _relevance(
                file, arguments, screen
            )
    _show_all(reports, arguments, screen)
    return 0


def _results(file: Path, arguments: Namespace, screen: Screen) -> list[Answered]:
    """Return the results of a corpus that is measured now, or of a run; of several, with the file's name."""
    from shepherd.evaluation import is_run, read_run

    if is_run(file):
        results = read_run(file)
        if arguments.relevance:
            raise UsageError(f"{file}: a run has no memories to search", hint="name the corpus itself")
    else:
        results = _run(file, arguments, screen)
    if not results:
        raise UsageError(f"{file}: a run without questions", hint="name a run or a corpus that has some")
    if len(arguments.files) == 1:
        return results
    return [replace(result, corpus=result.corpus or str(file)) for result in results]


def _run(file: Path, arguments: Namespace, screen: Screen) -> list[Answered]:
    from shepherd.evaluation import evaluate
    from shepherd.memory_factory import vector_settings

    config = loaded_settings(arguments).config
    return evaluate(
        _corpus(file, arguments, screen),
        # The texts of an export are as they were stored.
        dates=not arguments.no_dates and arguments.questions is None,
        rows=arguments.rows,
        recency_floor=config.rag_recency_floor,
        vectors=vector_settings(config),
        progress=screen.transient,
    )


def _corpus(file: Path, arguments: Namespace, screen: Screen) -> list[Conversation]:
    """Return the conversations; warn of questions that can't be measured: an id may be wrong."""
    from shepherd.evaluation import read_corpus

    left_out: list[str] = []
    corpus = read_corpus(file, arguments.questions, leave_out=left_out.append)
    if left_out:
        shown = [f'"{shortened(question, _SHOWN_CHARS)}"' for question in left_out[:_SHOWN_QUESTIONS]]
        if len(left_out) > len(shown):
            shown.append(f"and {len(left_out) - len(shown):,} more")
        screen.warn(
            f"{arguments.questions or file}: "
            + inflected(len(left_out), "{} [question isn't|questions aren't] measured")
            + f", because no evidence is among the turns: {', '.join(shown)}",
            "`evidence` has the ids of the turns or memories that answer the question",
        )
    return corpus


def _relevance(file: Path, arguments: Namespace, screen: Screen) -> dict[str, object]:
    from shepherd.evaluation import THRESHOLDS, measure_relevance, read_corpus
    from shepherd.memory_factory import vector_settings

    config = loaded_settings(arguments).config
    found = measure_relevance(
        read_corpus(file, arguments.questions),
        rows=arguments.rows,
        dates=not arguments.no_dates and arguments.questions is None,
        recency_floor=config.rag_recency_floor,
        vectors=vector_settings(config),
        progress=screen.transient,
    )
    return {"area": found.area, "kept": [asdict(found.kept(threshold)) for threshold in THRESHOLDS]}


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
        raise UsageError(
            f"{path}: it has no question in common with the files", hint="compare two runs of the same corpus"
        )
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


def _show_all(reports: dict[str, dict[str, object]], arguments: Namespace, screen: Screen) -> None:
    """Print each corpus, and of several the lowest value of each measure."""
    if len(reports) == 1:
        [report] = reports.values()
        if arguments.json:
            screen.json(report)
        else:
            _show(report, screen)
        return
    least = _least(reports)
    if arguments.json:
        screen.json({"corpora": reports, "least": least})
        return
    from shepherd.evaluation import METRICS

    for corpus, report in reports.items():
        screen.print(corpus)
        _show(report, screen)
        screen.print()
    screen.table(
        ["of all files", *METRICS],
        [["lowest", *(_formatted(metric, least[metric]) for metric in METRICS)]],
    )


def _least(reports: dict[str, dict[str, object]]) -> dict[str, float]:
    """Return the least mean of each metric."""
    from shepherd.evaluation import METRICS

    measures = []
    for report in reports.values():
        values = report["measures"]
        assert isinstance(values, dict)
        measures.append(values["all"])
    return {metric: min(values[metric][0] for values in measures) for metric in METRICS}


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
    relevance = report.get("relevance")
    if isinstance(relevance, dict):
        _show_relevance(relevance, screen)
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


def _show_relevance(found: dict[str, Any], screen: Screen) -> None:
    screen.print()
    screen.table(
        ["threshold", "evidence kept", "other memories kept", "unanswerable questions that get memories"],
        [
            [
                str(row["threshold"]),
                *(f"{100 * row[name]:.1f}" for name in ("evidence", "others", "unanswerable")),
            ]
            for row in found["kept"]
        ],
    )
    screen.note(
        "percentages; area under the ROC curve, answerable against unanswerable questions:"
        f" {found['area']:.3f}"
    )


def _with_interval(metric: str, values: list[float], sign: str = "") -> str:
    """Return recall in percent, the others as shares: `74.1 (71.5 to 76.6)`."""
    mean, low, high = (_formatted(metric, value, sign) for value in values)
    return f"{mean} ({low} to {high})"


def _formatted(metric: str, value: float, sign: str = "") -> str:
    factor, digits = (100.0, 1) if metric.startswith("recall") else (1.0, 3)
    return format(factor * value, f"{sign}.{digits}f")


def _tune(arguments: Namespace, screen: Screen) -> None:
    from shepherd._native.rank import DEFAULT_WEIGHTS
    from shepherd.evaluation import METRICS, evaluate, interval, tune

    corpus = _corpus(arguments.files[0], arguments, screen)
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
