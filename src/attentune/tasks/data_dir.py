"""Where the files of a data set are: in their folder within `data_dir` or its `glue/`, or in `data_dir` itself."""

from pathlib import Path

from attentune.errors import UserError


def dataset_folder(data_dir: Path, name: str) -> Path:
    """The folder `name` in `data_dir` or in its folder `glue`, or else `data_dir`, taken for the data set's own.

    >>> dataset_folder(Path("no/such/glue/RTE"), "RTE").as_posix()
    'no/such/glue/RTE'
    """
    return next((folder for folder in (data_dir / name, data_dir / "glue" / name) if folder.is_dir()), data_dir)


def missing_file(task: str, data_dir: Path, folder: str, file: str) -> UserError:
    """The error for a folder without a file that the task needs.

    >>> str(missing_file("rte", Path("glue"), "RTE", "dev.tsv"))
    'no folder glue for the task rte; give --data-dir with the folder that holds RTE/, or with its own files'
    """
    if not data_dir.is_dir():
        return UserError(
            f"no folder {data_dir} for the task {task}; "
            f"give --data-dir with the folder that holds {folder}/, or with its own files"
        )
    own = dataset_folder(data_dir, folder)
    if own != data_dir:
        return UserError(f"the task {task} needs the file {own / file}, which is not there; add it")
    return UserError(
        f"the task {task} needs the file {data_dir / folder / file} (or {data_dir / file}), and neither is there; "
        f"give --data-dir with the folder that holds {folder}/, or with its own files"
    )
