"""What goes to GLUE's server: the test sets answered by finished runs, as TSV files and a zip of them."""

import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attentune import tasks
from attentune.errors import UserError
from attentune.tasks.glue_server import SCORED, SHEETS, Sheet, answer, constant, lines
from attentune.training.evaluations import match_run, texts_of
from attentune.training.prediction import Predictor
from attentune.training.run_folder import RunFolder, write_whole

ZIP = "submission.zip"
SAME_DATE = (1980, 1, 1, 0, 0, 0)  # the same answers make the same zip


@dataclass(frozen=True)
class Answered:
    """One file of a submission; without a run it is filled with one answer, or missing."""

    sheet: Sheet
    run: str | None
    rows: int
    content: str | None
    why: str = ""


def runs_by_task(paths: Iterable[Path]) -> dict[str, RunFolder]:
    """The runs by the GLUE task that they were trained on, each task once.

    >>> runs_by_task([])
    Traceback (most recent call last):
    attentune.errors.UserError: there is no run to submit; give each with --run
    """
    found: dict[str, RunFolder] = {}
    for path in paths:
        run = RunFolder.open(path)
        task = str(run.metrics()["task"])
        if task not in SCORED:
            raise UserError(f"the run in {path} was trained on {task}, which is no task of GLUE's; leave it out")
        if task in found:
            raise UserError(f"{found[task].path} and {path} are both runs on {task}; give one of them")
        found[task] = run
    if not found:
        raise UserError("there is no run to submit; give each with --run")
    return found


def answer_sheets(
    runs: Mapping[str, RunFolder],
    data_dir: str | None,
    *,
    fill: bool,
    trust_remote_code: bool = False,
    batch_size: int = 64,
    say: Callable[[str], None] = lambda line: None,
) -> list[Answered]:
    """Each of the server's files: answered by a run, filled with one answer if that is asked for, or missing."""
    found, predictors = [], dict[str, Predictor]()
    for sheet in SHEETS:
        run = runs.get(sheet.run_of)
        if run is None:
            found.append(_unanswered(sheet, f"there is no run on {sheet.run_of}", fill))
            continue
        try:
            task = tasks.load(sheet.task, data_dir or run.recipe().data.data_dir)
        except UserError as error:
            if sheet.task == sheet.run_of:
                raise
            found.append(_unanswered(sheet, str(error), fill))  # a run on MNLI is none on AX, whose file may be lacking
            continue
        if sheet.split not in task.splits:
            found.append(_unanswered(sheet, f"there is no {sheet.split} split ({task.source})", fill))
            continue
        say(f"{sheet.file}: answered by {run.path}")
        if sheet.run_of not in predictors:
            predictors = {
                sheet.run_of: Predictor.from_run(run.path, trust_remote_code=trust_remote_code)
            }  # one at a time is enough to hold
        found.append(_answered(sheet, run, task, predictors[sheet.run_of], batch_size))
    return found


def _answered(sheet: Sheet, run: RunFolder, task: tasks.Task, predictor: Predictor, batch_size: int) -> Answered:
    ids = match_run(run, task, predictor)
    outputs = predictor.answers(texts_of(task, sheet.split), batch_size)
    if task.kind == "regression":
        values = outputs[:, 0].tolist()
    else:
        values = [float(ids[best]) for best in outputs.argmax(dim=-1).tolist()]
    rows = task.splits[sheet.split]
    content = lines(rows["id"][:], (answer(sheet.task, value) for value in values))
    why = "" if len(rows) == sheet.rows else f"the official test set has {sheet.rows:,} rows"
    return Answered(sheet, str(run.path), len(rows), content, why)


def _unanswered(sheet: Sheet, why: str, fill: bool) -> Answered:
    if not fill:
        return Answered(sheet, None, 0, None, why)
    content = lines(map(str, range(sheet.rows)), [constant(sheet.task)] * sheet.rows)
    return Answered(sheet, None, sheet.rows, content, f"{why}; every answer is {constant(sheet.task)!r}")


def write_submission(folder: Path, answered: Iterable[Answered]) -> Path:
    """The files and the zip in a new folder, whole or not at all; the path of the zip."""
    part = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    try:
        part.mkdir(parents=True)
        with zipfile.ZipFile(part / ZIP, "w", zipfile.ZIP_DEFLATED) as archive:
            for one in answered:
                if one.content is not None:
                    write_whole(part / one.sheet.file, one.content)
                    info = zipfile.ZipInfo(one.sheet.file, SAME_DATE)
                    info.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(info, one.content)
        part.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror or error}; choose another with --output") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder / ZIP
