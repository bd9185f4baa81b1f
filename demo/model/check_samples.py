#!/usr/bin/env python3
"""check_samples.py - measure how much of a checkpoint's greedy text is English, and how much of it runs in loops.

SPDX-License-Identifier: Apache-2.0

Inputs:  checkpoint folders; a word list, one word a line (Debian package wamerican, or words.txt of corpus.py).
Output:  per checkpoint and type of prompt: the share of words in the list, and the numbers of samples whose last 64 tokens repeat with a period
         of at most 32 (loops), that have a run of 16 equal tokens (runs), that end before half their length (short). Exit 1 when a checkpoint
         has under 80 % of its words in the list. The sampler is the one of tinylm.py, not the demo server's.
"""
import argparse
import pathlib
import re
import sys

import torch

from layout import ASSISTANT, USER, decode, encode, read_checkpoint
from tinylm import TinyLM, greedy, load, loops, set_half_io, stutters, until_end

LONG_STORY = ("It was late in the evening when the carriage stopped at last before the old house. The rain had not ceased since noon, and the road "
              "had become so bad that the horses could hardly keep their feet. My sister was tired and said very little, but I could see that "
              "she was glad to be home again. Our father stood at the door with a lamp in his hand, and before we could speak he told us that ")
LONG_TECH = ("When the server starts, it reads its settings from a file and opens the database. If the file does not exist, default values are "
             "used and a warning is written to the log. Each client that connects is given a process of its own, which waits for queries and sends "
             "the results back. To stop the server, send it a signal; it then waits until all clients have finished. In addition, the ")
PROMPTS = {
    "short": ["The", "Hello", "Once", "In the", "What is", "If", "A file", "She said"],
    "long": [LONG_STORY, LONG_TECH, LONG_STORY + LONG_TECH, LONG_TECH + LONG_STORY, LONG_TECH[:200], LONG_STORY[:200], LONG_STORY[100:],
             LONG_TECH[100:]],
    "creative": ["Once upon a time there was a king who", "Write a poem about the sea and the wind.", "The old man looked at the river and",
                 "She opened the letter with a trembling hand, and", "Tell me a story about a lost child.", "In the beginning there was only",
                 "My dear friend, I have not forgotten", "The stars were bright above the mountain when"],
    "technical": ["To install the package, you need to", "Explain how a compiler works.", "The function returns a list of",
                  "What is the difference between a process and a thread?", "The database server stores its data in", "def main():",
                  "An index can be used to", "If the file does not exist, the command"],
    "question": ["What is the capital of France?", "How do I change my password?", "Why is the sky blue?", "Who was the first king of Israel?",
                 "What is a good marriage?", "Can you help me with this?", "How many days are there in a year?", "Where can I find the manual?"],
    "odd": ["1 2 3 4 5", "!!!!", "(a + b) * c", "\n\n", "ABCDEFG", "\u00fcber stra\u00dfe", "   ", "{\"key\": 1}"],
}


def words_of(text):
    """The complete words of a continuation; the first and the last may be pieces of words."""
    inner = re.sub(r"^[A-Za-z']+|[A-Za-z']+$", "", text)
    return [w.strip("'") for w in re.findall(r"[A-Za-z][A-Za-z']*", inner) if w.strip("'")]


def known(word, listed):
    return any(w in listed for w in (word, word.lower(), word.lower().removesuffix("'s"), word.capitalize()))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("checkpoints", nargs="+", type=pathlib.Path)
    ap.add_argument("--words", type=pathlib.Path, default=pathlib.Path("/usr/share/dict/american-english"))
    ap.add_argument("--tokens", type=int, default=128)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--show", type=int, default=0, help="print that many samples of each type")
    args = ap.parse_args()
    listed, failed = set(args.words.read_text("utf-8").split()), False
    print(f"{'checkpoint':<12}{'prompts':<12}{'n':>4}{'words':>7}{'in list':>9}{'loops':>7}{'runs':>7}{'short':>7}")
    for folder in args.checkpoints:
        model = set_half_io(load(TinyLM().eval(), read_checkpoint(folder)[0]), True).to(args.device)
        total = [0] * 6
        for kind, prompts in PROMPTS.items():
            row = [0] * 6  # samples, words, known words, loops, runs of one token, samples that ended before half their length
            for i, prompt in enumerate(prompts):
                ids = encode(prompt).tolist()
                for form in ("text", "chat") if kind == "question" else ("text",):
                    start = ids if form == "text" else [USER, *ids, ASSISTANT]
                    made = until_end(greedy(model, torch.tensor([start], device=args.device), args.tokens)[0].tolist())
                    text = decode(made).decode(errors="replace")
                    words = words_of(text)
                    row = [a + b for a, b in zip(row, (1, len(words), sum(known(w, listed) for w in words), loops(made), stutters(made),
                                                       len(made) < args.tokens // 2))]
                    if i < args.show:
                        print(f"  [{form}] {prompt[-60:]!r} -> {text!r}")
            total = [a + b for a, b in zip(total, row)]
            print(f"{folder.name:<12}{kind:<12}{row[0]:>4}{row[1]:>7}{row[2] / max(1, row[1]):>9.1%}{row[3]:>7}{row[4]:>7}{row[5]:>7}", flush=True)
        print(f"{folder.name:<12}{'all':<12}{total[0]:>4}{total[1]:>7}{total[2] / max(1, total[1]):>9.1%}{total[3]:>7}{total[4]:>7}{total[5]:>7}", flush=True)
        failed |= total[2] < 0.8 * total[1]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
