"""The CUDA kernels, against the reference in float64 on the CPU; skipped where there is no GPU."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from attentune.attention import attend, kernels
from attentune.attention.attend import read_attention
from attentune.methods import attach

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU on this machine")

BOUNDS = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
MASKS = ["none", "causal", "padding", "padding, additive", "boolean", "bias"]


def masks_of(kind, batch, length, generator):
    lengths = torch.randint(length // 2, length + 1, (batch,), generator=generator)
    padding = (torch.arange(length) < lengths[:, None])[:, None, None, :]
    may = torch.rand(batch, 1, length, length, generator=generator) < 0.7
    may[..., 0] = True
    return {
        "padding": padding.expand(batch, 1, length, length),
        "padding, additive": torch.where(padding, 0.0, torch.finfo(torch.float32).min),
        "boolean": may,
        "bias": torch.randn(batch, 1, length, length, generator=generator).bfloat16().float(),
    }.get(kind), padding[:, 0, 0].float()


def results(tensors, arguments, backend):
    got = attend(*tensors, **arguments, read=["received", "sharpness", "entropy"], backend=backend)
    parts = {"output": got.output, **got.readings}
    generator = torch.Generator().manual_seed(1)
    total = 0
    for part in parts.values():
        upstream = torch.randn(part.shape, generator=generator, dtype=torch.float64).to(part.device)
        total = total + (part.double() * upstream).sum()
    grads = torch.autograd.grad(total, tensors)
    return {**parts, **dict(zip(("d query", "d key", "d value"), grads, strict=True))}


@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("length", "width"), [(128, 64), (77, 32), (200, 40), (50, 20)])
def test_fused_on_cuda_equals_the_reference(dtype, kind, length, width):
    generator = torch.Generator().manual_seed(0)
    exact = [torch.randn(2, 3, length, width, generator=generator).to(dtype).double() for _ in range(3)]
    mask, weight = masks_of(kind, 2, length, generator)
    arguments = {"mask": mask, "query_weight": weight, "is_causal": kind == "causal"}
    expected = results([x.clone().requires_grad_() for x in exact], arguments, "reference")
    on_gpu = {name: x.cuda() if isinstance(x, torch.Tensor) else x for name, x in arguments.items()}
    assert kernels.available(torch.device("cuda"), dtype)
    got = results([x.to("cuda", dtype).requires_grad_() for x in exact], on_gpu, "fused")
    for name, want in expected.items():
        error = float((got[name].detach().double().cpu() - want.detach()).norm() / want.detach().norm())
        assert error < BOUNDS[dtype], f"{name}: {error:.1e}"


def test_received_keeps_float32_precision_in_bfloat16():
    """The log-sum-exp goes through the product as three bfloat16 columns; as a bias it would keep 8 bits."""
    query, key = (torch.randn(2, 4, 256, 64).bfloat16() for _ in range(2))
    want = read_attention(query.double(), key.double(), read="received", backend="reference")["received"]
    got = read_attention(query.cuda(), key.cuda(), read="received", backend="fused")["received"].cpu().double()
    assert float((got - want).norm() / want.norm()) < 1e-3


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_guided_step_on_cuda_is_that_of_the_cpu(dropout):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": dropout}
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes, **still)).train()
    ids = torch.randint(1, 100, (4, 33))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.arange(4) % 2}
    batch["attention_mask"][2, 20:] = 0
    terms = {}
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        inputs = {name: x.to(device) for name, x in batch.items()}
        with attach(model, "mdg(0.1, layers=0) + pdg(0.01, layers=0)") as guided:
            loss = model(**inputs).loss
            guided.loss().backward()
            terms[device] = [float(x.detach()) for x in guided.terms.values()]
            grad = model.bert.encoder.layer[0].attention.self.query.weight.grad
        terms[device].append(float(grad.norm()))
        assert loss.isfinite()
    assert terms["cuda"] == pytest.approx(terms["cpu"], rel=1e-3)
