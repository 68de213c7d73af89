"""What guiding by patterns costs in pre-training: tokens a second, guided against unguided.

A step is a whole one: masked tokens, forward, backward, AdamW, on blocks of packed documents. The two ways take turns in one
process, step by step, so that noise meets them alike. Of each step both the time on the wall and, on a CPU, that of the
processor are taken, for machines that have something else to do; the ratio is a median over pairs of steps.

    python benchmarks/pretrain.py                                   the table of docs/pretraining.md
    python benchmarks/pretrain.py --size base --lengths 512 --dropout 0.1 --precision fp32
"""

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from transformers import RobertaConfig, RobertaForMaskedLM
from transformers.utils import logging

import attentune
from attentune.training.pretraining.trainer import masked_loss

SIZES = {
    "small": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 1024},
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
}
VOCABULARY = {"small": 8_000, "base": 50_265}
HEADS = {"small": (2, 1, 1), "base": (4, 1, 1)}  # half of them, as the paper guides
DOCUMENT = 100
CLS, PAD, SEP, MASK = 0, 1, 2, 3


class Tokenizer:
    """Of a tokenizer, what the patterns ask."""

    all_special_ids = (CLS, PAD, SEP, MASK)
    cls_token_id, sep_token_id, eos_token_id, unk_token_id, mask_token_id = CLS, SEP, SEP, None, MASK


class Step:
    """A model, a batch of packed documents, and the two ways to take a training step."""

    def __init__(self, size: str, length: int, tokens: int, dropout: float, bf16: bool) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(0)
        config = RobertaConfig(
            vocab_size=VOCABULARY[size], max_position_embeddings=length + 2, type_vocab_size=1,
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **SIZES[size],
        )  # fmt: skip
        self.model = RobertaForMaskedLM(config).to(self.device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        ids = torch.randint(5, VOCABULARY[size], (max(1, tokens // length), length))
        ids[:, ::DOCUMENT], ids[:, DOCUMENT - 1 :: DOCUMENT], ids[:, -1] = CLS, SEP, SEP
        masked = (torch.rand(ids.shape) < 0.15) & (ids >= 5)
        self.labels = ids.masked_fill(~masked, -100).to(self.device)
        ids = ids.masked_fill(masked, MASK)
        self.inputs = {"input_ids": ids.to(self.device), "attention_mask": torch.ones_like(ids).to(self.device)}
        self.bf16 = bf16
        first, after, before = HEADS[size]
        weight = 100 / length
        self.method = f"first({weight}, heads={first}) + next({weight}, heads={after}) + prev({weight}, heads={before})"

    def take(self, guided: bool) -> None:
        """One training step."""
        autocast = torch.autocast(self.device, torch.bfloat16) if self.bf16 else nullcontext()
        if guided:
            with attentune.attach(self.model, self.method, Tokenizer()) as guide, autocast:
                loss = guide.loss(masked_loss(self.model(**self.inputs), self.labels))
        else:
            with autocast:
                loss = masked_loss(self.model(**self.inputs), self.labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def seconds(self, guided: bool) -> tuple[float, float]:
        """How long one step takes, on the wall and of the processor."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        started, worked = time.perf_counter(), time.process_time()
        self.take(guided)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started, time.process_time() - worked


def measure(size: str, length: int, options: argparse.Namespace) -> dict:
    """Tokens a second of the two ways, and their ratio."""
    step = Step(size, length, options.tokens, options.dropout, options.precision == "bf16")
    for guided in (False, True):
        step.take(guided)
    pairs = [(step.seconds(False), step.seconds(True)) for _ in range(options.repeats)]
    tokens = step.inputs["input_ids"].numel()
    result = {
        "size": size, "length": length, "tokens": tokens, "dropout": options.dropout, "precision": options.precision,
        "method": step.method,
    }  # fmt: skip
    for i, clock in enumerate(("wall", "processor")):
        ratios = sorted(guided[i] / plain[i] for plain, guided in pairs)
        result[clock] = {
            "unguided_tokens_per_second": tokens / statistics.median(plain[i] for plain, _ in pairs),
            "guided_tokens_per_second": tokens / statistics.median(guided[i] for _, guided in pairs),
            "ratio": statistics.median(ratios),
            "ratios": ratios,
        }
    return result


def row(result: dict) -> str:
    """A line of the table."""
    cells = [result["size"], f"{result['length']}", f"{result['dropout']}"]
    for clock in ("wall", "processor"):
        found = result[clock]
        quarter = len(found["ratios"]) // 4
        middle = f"{found['ratios'][quarter]:.2f}–{found['ratios'][-1 - quarter]:.2f}"
        cells += [f"{found['unguided_tokens_per_second']:,.0f}", f"{found['guided_tokens_per_second']:,.0f}"]
        cells.append(f"{found['ratio']:.2f} ({middle})")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=[*SIZES], default="small")
    parser.add_argument("--lengths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=2048, help="tokens a step")
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--json", type=Path, help="write the raw results here")
    options = parser.parse_args()
    logging.set_verbosity_error()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}, {options.precision}; in brackets the middle half of the repeats\n")
    print(
        "| size | length | dropout | tokens/s | guided | time, guided / unguided | tokens/s of processor | guided | ratio |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    results = []
    dropouts = options.dropout
    for length in options.lengths:
        for options.dropout in dropouts:
            results.append(measure(options.size, length, options))
            print(row(results[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
