"""Pattern scores, against loops over the maps that transformers shows."""

import pytest
import torch

from attentune.analysis import pattern_scores
from attentune.errors import UserError


def test_scores_are_the_mean_attention_on_the_targets(tiny_model, tiny_tokenizer):
    model = tiny_model("bert")
    texts = [["a fine film", "it was good"], ["the dull bore was bad bad"]]
    batches = [tiny_tokenizer(group, return_tensors="pt", padding="max_length", max_length=10) for group in texts]
    scores = pattern_scores(model, tiny_tokenizer, batches, ("first", "next", "prev", "delim"))
    model.set_attn_implementation("eager")
    model.eval()
    sums = {name: torch.zeros(3, 4) for name in scores}
    counts = dict.fromkeys(scores, 0)
    for batch in batches:
        with torch.no_grad():
            maps = torch.stack(model(**batch, output_attentions=True).attentions)  # (layers, batch, heads, query, key)
        for b, mask in enumerate(batch["attention_mask"].tolist()):
            length = sum(mask)
            for q in range(length):
                targets = {"first": 0, "next": q + 1, "prev": q - 1, "delim": length - 1}
                for name, k in targets.items():
                    if 0 <= k < length:
                        sums[name] += maps[:, b, :, q, k]
                        counts[name] += 1
    for name, found in scores.items():
        torch.testing.assert_close(found, sums[name] / counts[name], atol=1e-5, rtol=1e-5, msg=name)


def test_the_model_is_left_as_it_was(tiny_model, tiny_tokenizer):
    model = tiny_model("bert")
    pattern_scores(model, tiny_tokenizer, [tiny_tokenizer("a film", return_tensors="pt")])
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_is_no_pattern_is_told(tiny_model, tiny_tokenizer):
    with pytest.raises(
        UserError, match="there is no pattern 'mdg'; the patterns are first, next, prev, same, delim, period"
    ):
        pattern_scores(tiny_model("bert"), tiny_tokenizer, [], ("mdg",))
