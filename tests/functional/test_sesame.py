"""Gaussian blur and squeeze-and-excitation, against plain Python loops over SesameBERT's equations."""

import math

import numpy as np
import pytest
import torch

from attentune.errors import UserError
from attentune.functional import gaussian_blur, gaussian_kernel, squeeze_excite, weighted_layers

MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 1], [1, 0, 1, 1, 0, 1]])


def random_tensor(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def equation_7(sigma, size):
    weights = [math.exp(-((x - size // 2) ** 2) / (2 * sigma**2)) for x in range(size)]
    return [weight / sum(weights) for weight in weights]


def blurred(rows, sigma, size, real):
    """Eq. 11 for one (length, dim) as lists: a missing neighbour is the token itself, padding stays as it is."""
    kernel = equation_7(sigma, size)
    result = []
    for i in range(len(rows)):
        if not real[i]:
            result.append(rows[i])
            continue
        row = [0.0] * len(rows[0])
        for x in range(size):
            k = i + x - size // 2
            source = rows[k] if 0 <= k < len(rows) and real[k] else rows[i]
            row = [total + kernel[x] * value for total, value in zip(row, source, strict=True)]
        result.append(row)
    return result


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_the_kernel_is_equation_7_with_sum_1(sigma, size):
    kernel = gaussian_kernel(sigma, size, torch.float64)
    assert kernel.tolist() == pytest.approx(equation_7(sigma, size), abs=1e-15)
    assert float(kernel.sum()) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [1, 3, 5, 7, 15])
@pytest.mark.parametrize("sigma", [0.3, 0.5, 2.0])
def test_the_blur_is_equation_11(masked, size, sigma):
    x = random_tensor(4, 2, 6, 3)
    found = gaussian_blur(x, sigma=sigma, kernel_size=size, mask=MASK if masked else None)
    for b in range(4):
        real = MASK[b].tolist() if masked else [1] * 6
        for head in range(2):
            expected = torch.tensor(blurred(x[b, head].tolist(), sigma, size, real), dtype=torch.float64)
            torch.testing.assert_close(found[b, head], expected, rtol=0, atol=1e-12)


def test_the_papers_kernel_is_a_convolution_with_symmetric_padding():
    x = random_tensor(7, 2)
    padded = np.pad(x.numpy(), ((1, 1), (0, 0)), mode="symmetric")
    kernel = equation_7(0.5, 3)
    expected = np.stack([np.convolve(padded[:, d], kernel, mode="valid") for d in range(2)], axis=1)
    torch.testing.assert_close(gaussian_blur(x, sigma=0.5), torch.from_numpy(expected))


def test_it_takes_any_number_of_leading_dimensions():
    x = random_tensor(4, 2, 6, 3)
    whole = gaussian_blur(x, sigma=0.5, mask=MASK)
    torch.testing.assert_close(gaussian_blur(x[:, 0], sigma=0.5, mask=MASK), whole[:, 0])
    torch.testing.assert_close(gaussian_blur(x[0, 1], sigma=0.5), whole[0, 1])
    as_models_have_it = x.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(gaussian_blur(as_models_have_it, sigma=0.5, mask=MASK), whole)


@pytest.mark.parametrize("size", [3, 7])
def test_gradients_are_right(size):
    x = random_tensor(4, 2, 6, 2).requires_grad_()
    for mask in (None, MASK):
        blur = lambda x: gaussian_blur(x, sigma=0.7, kernel_size=size, mask=mask)  # noqa: B023, E731
        assert torch.autograd.gradcheck(blur, x)
        assert torch.autograd.gradgradcheck(blur, x)


@pytest.mark.parametrize("size", [3, 5, 9])
@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("padding", [1e3, math.nan])
def test_a_padded_text_is_blurred_as_it_is_alone(size, left, padding):
    """To the bit, in its gradient too; and the padding comes back as it was."""
    alone = random_tensor(2, 3, 5, 4).requires_grad_()
    mine = slice(left, left + 5)
    padded = torch.full((2, 3, 11, 4), padding, dtype=torch.float64)
    padded[:, :, mine] = alone.detach()
    padded.requires_grad_()
    mask = torch.zeros(2, 11)
    mask[:, mine] = 1
    expected = gaussian_blur(alone, sigma=0.8, kernel_size=size)
    found = gaussian_blur(padded, sigma=0.8, kernel_size=size, mask=mask)
    assert torch.equal(found[:, :, mine], expected)
    assert torch.equal(
        found[mask[:, None, :].expand(2, 3, 11) == 0].nan_to_num(-1),
        torch.full((36, 4), padding).double().nan_to_num(-1),
    )
    (expected_grad,) = torch.autograd.grad(expected.square().sum(), alone)
    (grad,) = torch.autograd.grad(found[:, :, mine].square().sum(), padded)
    assert torch.equal(grad[:, :, mine], expected_grad)
    assert grad.abs().sum() == pytest.approx(float(expected_grad.abs().sum()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("sigma", [0, 0.0, 1e-300, 1e-9, 0.01])
def test_a_sigma_of_nothing_is_the_identity_to_the_bit(dtype, sigma):
    x = random_tensor(2, 3, 5, 4).to(dtype).requires_grad_()
    for mask in (None, torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]])):
        assert gaussian_blur(x, sigma=sigma, kernel_size=5, mask=mask) is x
    assert gaussian_kernel(sigma, 3).tolist() == [0.0, 1.0, 0.0]


def test_the_blur_goes_to_the_identity_as_sigma_falls():
    x = random_tensor(2, 3, 5, 4)
    changes = [float((gaussian_blur(x, sigma=sigma) - x).abs().max()) for sigma in (0.5, 0.3, 0.2, 0.1, 0.05)]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0.1
    assert changes[-1] == 0  # e^−200 is below the last bit


def test_a_constant_stays_and_no_token_loses_weight():
    ones = torch.ones(4, 2, 6, 3, dtype=torch.float64)
    assert torch.equal(gaussian_blur(ones, sigma=1.0, kernel_size=5, mask=MASK), ones)
    x = random_tensor(2, 6, 3)
    for size in (3, 5, 7):
        torch.testing.assert_close(gaussian_blur(x, sigma=1.0, kernel_size=size).sum(dim=1), x.sum(dim=1))


def test_neighbours_come_closer():
    x = random_tensor(1, 8, 4)
    rough = lambda x: float((x[:, 1:] - x[:, :-1]).square().sum())  # noqa: E731
    assert rough(gaussian_blur(x, sigma=1.0)) < rough(gaussian_blur(x, sigma=0.5)) < rough(x)


def test_it_keeps_nothing_of_its_input_for_the_backward_pass():
    kept = []
    x = torch.randn(2, 3, 5, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        gaussian_blur(x, sigma=0.5, mask=torch.ones(2, 5))
    assert not any(len(shape) == 4 and shape[-1] == 4 for shape in kept)


def squeeze_and_excite(hidden, w1, b1, w2, b2, keep):
    """Eq. 2 and 3 for one example, hidden[k][i][j] of layer k, token i, feature j."""
    n, inner = len(hidden), len(b1)
    z = [sum(sum(layer[i]) for i in keep) / (len(keep) * len(layer[0])) for layer in hidden]
    relu = [max(0.0, sum(z[k] * w1[k][m] for k in range(n)) + b1[m]) for m in range(inner)]
    return [1 / (1 + math.exp(-sum(relu[m] * w2[m][k] for m in range(inner)) - b2[k])) for k in range(n)]


def excitation(n=6, inner=2):
    return (
        random_tensor(n, inner, seed=1),
        random_tensor(inner, seed=2),
        random_tensor(inner, n, seed=3),
        random_tensor(n, seed=4),
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("stacked", [False, True])
def test_layer_weights_are_equations_2_and_3(masked, stacked):
    hidden, weights = random_tensor(4, 6, 6, 3), excitation()
    found = squeeze_excite(hidden if stacked else tuple(hidden.unbind(1)), *weights, mask=MASK if masked else None)
    for b in range(4):
        keep = [i for i in range(6) if not masked or MASK[b, i]]
        expected = squeeze_and_excite(hidden[b].tolist(), *(w.tolist() for w in weights), keep)
        assert found[b].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("stacked", [False, True])
def test_the_average_of_layers_is_equation_5(stacked):
    hidden, s = random_tensor(2, 4, 3, 5), random_tensor(2, 4, seed=5).sigmoid()
    found = weighted_layers(hidden if stacked else list(hidden.unbind(1)), s)
    for b in range(2):
        for i in range(3):
            for j in range(5):
                above = sum(float(s[b, k]) * float(hidden[b, k, i, j]) for k in range(4))
                assert float(found[b, i, j]) == pytest.approx(above / float(s[b].sum()), abs=1e-12)


def test_gradients_of_squeeze_and_excitation_are_right():
    hidden = random_tensor(2, 6, 3, 2).requires_grad_()
    weights = [w.requires_grad_() for w in excitation()]
    mask = torch.tensor([[1, 1, 0], [0, 1, 1]])
    assert torch.autograd.gradcheck(lambda *given: squeeze_excite(*given, mask=mask), (hidden, *weights))
    s = random_tensor(2, 6, seed=5).sigmoid().requires_grad_()
    assert torch.autograd.gradcheck(weighted_layers, (hidden, s))


def test_padding_changes_no_layers_weight():
    alone = random_tensor(2, 6, 3, 4)
    padded = torch.cat([torch.full((2, 6, 2, 4), math.nan), alone, torch.full((2, 6, 3, 4), 1e6)], dim=2)
    mask = torch.tensor([[0, 0, 1, 1, 1, 0, 0, 0]] * 2)
    torch.testing.assert_close(squeeze_excite(padded, *excitation(), mask=mask), squeeze_excite(alone, *excitation()))
    assert squeeze_excite(padded, *excitation(), mask=torch.zeros(2, 8)).isfinite().all()


def test_equal_weights_give_the_plain_average():
    hidden = random_tensor(2, 4, 3, 5)
    torch.testing.assert_close(weighted_layers(hidden, torch.full((2, 4), 0.3).double()), hidden.mean(dim=1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_kernel(0.5, 4), "kernel_size must be an odd"),
        (lambda: gaussian_kernel(0.5, 3.0), "kernel_size must be an odd"),
        (lambda: gaussian_kernel(-0.5), "sigma must be at least 0"),
        (lambda: gaussian_kernel(math.nan), "sigma must be at least 0"),
        (lambda: gaussian_blur(torch.ones(3), sigma=0.5), "x must be"),
        (lambda: gaussian_blur(torch.ones(2, 3, 4), sigma=0.5, mask=torch.ones(2, 4)), "mask must be"),
        (lambda: gaussian_blur(torch.ones(3, 4), sigma=0.5, mask=torch.ones(3, 3)), "mask must be"),
        (lambda: squeeze_excite(torch.ones(2, 6, 3).double(), *excitation()), "hidden must be \\(batch, layers"),
        (lambda: squeeze_excite([], *excitation()), "hidden must be one"),
        (lambda: squeeze_excite([torch.ones(1, 2, 3), torch.ones(1, 2, 4)], *excitation()), "all alike"),
        (lambda: squeeze_excite(random_tensor(2, 5, 3, 4), *excitation()), "w1 must be \\(5, 2\\)"),
        (lambda: squeeze_excite(random_tensor(2, 6, 3, 4), *excitation(), mask=torch.ones(2, 4)), "mask must be"),
        (lambda: weighted_layers(torch.ones(2, 6, 3, 4), torch.ones(6)), "s must be"),
    ],
)
def test_a_mistake_gets_a_sentence(call, message):
    with pytest.raises(UserError, match=message):
        call()
