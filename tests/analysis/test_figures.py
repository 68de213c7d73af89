"""Figures are judged by the data that they draw, not by their pixels."""

import math

import numpy as np
import pytest

from attentune.analysis import (
    AverageMap,
    Estimate,
    Received,
    average_map,
    draw_ablation,
    draw_average_maps,
    draw_head_grid,
    draw_head_pca,
    draw_layer_weights,
    draw_received,
    draw_token_importance,
    draw_training_curves,
    received_by_head,
)
from attentune.analysis.scales import diverging, sequential
from attentune.errors import UserError

RANDOM = np.random.default_rng(0)


def images(drawing):
    return [np.asarray(axis.get_images()[0].get_array()) for axis in drawing.figure.axes if axis.get_images()]


def labels(ticks):
    return [label.get_text() for label in ticks]


def test_the_average_map_is_the_mean_over_layers_and_heads_of_the_first_tokens(minilm, maps_of):
    text = "what a bore, a $1 bore"
    found = average_map(*minilm, text, first=4)
    assert found.tokens == ("[CLS]", "what", "a", "bore")
    maps = maps_of(text)
    expected = sum(head[3][1] for layer in maps for head in layer) / 72
    assert found.map[3, 1] == pytest.approx(expected, abs=1e-5)
    drawing = draw_average_maps({"before": found, "after": AverageMap(found.tokens, found.map / 2)})
    first, second = images(drawing)[:2]
    np.testing.assert_array_equal(first, found.map)
    np.testing.assert_array_equal(second, found.map / 2)
    norms = {(axis.get_images()[0].norm.vmin, axis.get_images()[0].norm.vmax) for axis in drawing.figure.axes[:2]}
    assert norms == {(0, found.map.max())}  # one scale for both
    assert labels(drawing.figure.axes[0].get_yticklabels()) == ["[CLS]", "what", "a", "bore"]


def test_received_attention_is_drawn_a_row_a_head(minilm):
    (received,) = received_by_head(*minilm, ["what a $1 bore"])
    drawing = draw_received({"before": received, "after": received})
    for shown in images(drawing)[:2]:
        assert shown.shape == (72, len(received.tokens))
        assert float(shown[13, 0]) == pytest.approx(float(received.share[1, 1, 0]))
    assert r"\$" in labels(drawing.figure.axes[0].get_xticklabels())


def test_the_principal_components_are_those_of_all_heads_together():
    panels = {name: Received(("a", "b", "c", "d"), RANDOM.random((2, 3, 4))) for name in ("one", "two")}
    drawing = draw_head_pca(panels)
    rows = np.concatenate([received.share.reshape(6, 4) for received in panels.values()])
    centred = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centred)
    expected = np.abs(centred @ directions[:2].T)  # directions have no sign
    drawn = np.concatenate([axis.collections[0].get_offsets() for axis in drawing.figure.axes[:2]])
    np.testing.assert_allclose(np.abs(drawn), expected, atol=1e-9)
    layers = drawing.figure.axes[0].collections[0].get_array()
    assert layers.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(UserError, match="take one text"):
        draw_head_pca({"one": panels["one"], "other": Received(("x", "b", "c", "d"), RANDOM.random((2, 3, 4)))})


def test_a_grid_draws_any_measure_and_a_difference_has_zero_in_the_middle():
    grid = RANDOM.random((3, 4))
    (shown,) = images(draw_head_grid({"run": grid}, "cls"))
    np.testing.assert_array_equal(shown, grid)
    drawing = draw_head_grid({"after − before": grid - 0.9}, "entropy", is_difference=True)
    norm = drawing.figure.axes[0].get_images()[0].norm
    assert norm(0) == 0.5
    assert norm.vmax == -norm.vmin
    with pytest.raises(UserError, match="nothing to draw"):
        draw_head_grid({"run": np.full((2, 2), np.nan)}, "period")


def test_layer_weights_are_drawn_with_their_spread():
    weights = RANDOM.random((50, 4))
    axis = draw_layer_weights(weights).figure.axes[0]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), [sum(weights[:, i]) / 50 for i in range(4)])
    for i, bar in enumerate(axis.patches):
        ordered = sorted(weights[:, i])
        assert ordered[11] <= bar.get_y() <= ordered[13]
        assert ordered[36] <= bar.get_y() + bar.get_height() <= ordered[38]
    with pytest.raises(UserError, match=r"\(examples, layers\)"):
        draw_layer_weights([0.1, 0.2])


def test_token_importance_is_drawn_relative_to_the_highest():
    drawing = draw_token_importance(["a", "fine", "film"], {"SSA": [0.1, 0.4, 0.2], "received": [1.0, 1.0, 2.0]})
    np.testing.assert_allclose(images(drawing)[0], [[0.25, 1, 0.5], [0.5, 0.5, 1]])
    with pytest.raises(UserError, match="one score for each of the 2 tokens"):
        draw_token_importance(["a", "b"], {"SSA": [0.1]})


def test_curves_are_the_log():
    log = [
        {"step": 5, "loss": 1.0, "task_loss": 0.7, "guide/mdg": 3.0, "weight/mdg": 0.1},
        {"step": 10, "loss": 0.9, "task_loss": None, "guide/mdg": 2.0},
        {"step": 10, "eval_loss": 0.4},
        {"step": 15, "loss": math.nan, "task_loss": 0.5, "guide/mdg": 1.0},
    ]
    drawing = draw_training_curves({"guided": log, "plain": [{"step": 5, "loss": 0.6}]})
    task, mdg = drawing.figure.axes[:2]
    drawn = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in task.lines}
    assert drawn == {"guided": ([5, 15], [0.7, 0.5]), "plain": ([5], [0.6])}
    assert [list(line.get_ydata()) for line in mdg.lines] == [[3.0, 2.0, 1.0]]
    with pytest.raises(UserError, match="hold no loss"):
        draw_training_curves({"empty": []})


def test_an_ablation_shows_value_and_interval():
    settings = {"all": Estimate(0.8, 0.7, 0.9, 5), "none": Estimate(0.6, None, None, 1)}
    axis = draw_ablation(settings, "accuracy", reference="none").figure.axes[0]
    reference, interval, value, plain = axis.lines
    assert list(reference.get_xdata()) == [0.6, 0.6]
    assert (list(interval.get_xdata()), list(value.get_xdata())) == ([0.7, 0.9], [0.8])
    assert list(plain.get_xdata()) == [0.6]
    assert labels(axis.get_yticklabels()) == ["all", "none"]
    with pytest.raises(UserError, match="no setting 'some'"):
        draw_ablation(settings, "accuracy", reference="some")


def test_a_drawing_saves_and_shows_itself(tmp_path):
    drawing = draw_token_importance(["<b>", "film"], {"SSA": [0.1, 0.4]})
    assert [file.name for file in drawing.save(tmp_path / "both")] == ["both.png", "both.svg"]
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "both.svg").read_bytes()
    assert b"<svg" in svg
    again = draw_token_importance(["<b>", "film"], {"SSA": [0.1, 0.4]})
    assert [file.name for file in again.save(tmp_path / "again")] == ["again.png", "again.svg"]
    assert svg == (tmp_path / "again.svg").read_bytes()  # no date, no random names
    shown = drawing._repr_html_()
    assert shown.startswith('<img src="data:image/png;base64,')
    assert 'alt="Importance of the tokens of: &lt;b&gt; film"' in shown
    with pytest.raises(UserError, match=r"\.png or \.svg"):
        drawing.save(tmp_path / "picture.gif")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colour_scales_go_in_even_steps_of_lightness(theme):
    def lightness(colours):  # CIE L*, another measure of it than the one that the scales are made by
        linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
        y = linear @ [0.2126, 0.7152, 0.0722]
        return np.where(y > 0.008856, 116 * np.cbrt(y) - 16, 903.3 * y)

    steps = np.diff(lightness(sequential(theme) / 255)[::15])
    assert (np.sign(steps) == (-1 if theme == "light" else 1)).all()
    assert np.abs(steps).max() < 2.2 * np.abs(steps).min()
    of = lightness(diverging(theme) / 255)
    assert of[0] == pytest.approx(of[-1], abs=4)  # neither side outshines the other
    middle = int(of.argmax() if theme == "light" else of.argmin())
    assert abs(middle - 127.5) < 3
