"""What a run says of itself to others: the card in its checkpoint, and what goes to the hub."""

import huggingface_hub
import pytest
import yaml
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from attentune.errors import UserError
from attentune.methods.persistence import load_methods
from attentune.training import RunFolder, load_for_classification, push_run, run_recipe


@pytest.fixture
def run(tiny_recipe, tmp_path):
    return run_recipe(tiny_recipe(method="mdg(0.1)"), tmp_path / "run")


def card_of(run):
    head, _, body = (run.checkpoint / "README.md").read_text(encoding="utf-8").removeprefix("---\n").partition("---\n")
    return yaml.safe_load(head), body


def test_the_card_states_method_data_metrics_and_how_to_do_it_again(run, tmp_path):
    head, body = card_of(run)
    metrics = run.metrics()
    assert head["library_name"] == "transformers"
    assert "attentune" in head["tags"]
    told = {
        metric["type"]: metric["value"]
        for result in head["model-index"][0]["results"]
        for metric in result["metrics"]
    }  # fmt: skip
    assert told["accuracy"] == pytest.approx(metrics["eval"]["accuracy"], abs=1e-5)
    assert "`mdg(weight=0.1)`" in body
    assert f"| accuracy | {metrics['eval']['accuracy']:.4f} |" in body
    assert "43 train" not in body
    recipe = yaml.safe_load(body.split("```yaml\n")[1].split("```")[0])
    assert recipe["method"] == "mdg(weight=0.1)"
    assert recipe["training"]["batch_size"] == 16
    assert f"torch {__import__('torch').__version__.split('+')[0]}" in body


def test_the_card_tells_nothing_of_the_machines_folders(run, tmp_path):
    text = (run.checkpoint / "README.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "reviews.tsv" in text


def test_the_card_is_one_that_the_hub_reads(run):
    card = huggingface_hub.ModelCard.load(run.checkpoint / "README.md")
    assert card.data.pipeline_tag == "text-classification"
    assert card.data.eval_results


def test_a_method_that_lasts_is_in_the_checkpoint_and_on_the_card(tiny_recipe, tmp_path):
    run = run_recipe(tiny_recipe(method="se() + mdg(0.1)"), tmp_path / "run")
    assert str(load_methods(run.checkpoint)) == "se"
    assert "load the model with `attentune.load`" in card_of(run)[1]


class Hub:
    """Takes what is pushed."""

    def __init__(self, error=None):
        self.error, self.made, self.sent = error, [], []

    def create_repo(self, name, private, exist_ok):
        if self.error:
            raise self.error
        self.made.append((name, private, exist_ok))
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{name}")

    def upload_folder(self, **sent):
        self.sent.append(sent)


def test_a_run_is_pushed_with_its_card_and_without_pickles(run, monkeypatch):
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    assert push_run(run.path, "someone/films", private=True) == "https://huggingface.co/someone/films"
    assert hub.made == [("someone/films", True, True)]
    assert hub.sent[0]["folder_path"] == run.checkpoint
    assert hub.sent[0]["repo_id"] == "someone/films"
    assert "*.bin" in hub.sent[0]["ignore_patterns"]
    assert (run.checkpoint / "README.md").is_file()


def hub_error(status):
    import httpx

    response = httpx.Response(status, request=httpx.Request("POST", "https://huggingface.co/api"))
    return HfHubHTTPError(f"{status} for url", response=response)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (HFValidationError("bad"), "can't be the name of a repository on the hub; write it as owner/name"),
        (hub_error(403), "the hub doesn't let you write to a/b; log in"),
        (hub_error(500), "can't be pushed to the hub"),
        (ConnectionError("no network"), "the hub can't be reached: no network"),
    ],
)
def test_what_the_hub_refuses_is_told(run, monkeypatch, error, sentence):
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: Hub(error))
    with pytest.raises(UserError, match=sentence):
        push_run(run.path, "a/b")


def test_only_finished_runs_are_pushed(tiny_recipe, tmp_path):
    folder = RunFolder.create(tmp_path / "run")
    folder.write_start(tiny_recipe())
    with pytest.raises(UserError, match="has not finished"):
        push_run(folder.path, "a/b")


def test_a_pushed_model_loads(run):
    model, _ = load_for_classification(str(run.checkpoint))
    assert model.config.id2label == {0: "bad", 1: "good"}
