#!/usr/bin/env python3
"""Writes what studies/peers/training.py makes of a run: `run_of_training.py PROGRAMS SPEC SAMPLES`. By a made-up clock a made-up peer takes two seconds a
step, a batch one and an order a hundred; a sample is its number."""
import json
import sys

sys.path.insert(0, sys.argv[1])
import sample_order
import training


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now

    time = perf_counter


class Samples(list):
    """Indexed as an array is."""

    def __getitem__(self, at):
        clock.now += 0.5  # a batch takes inputs and labels
        return super().__getitem__(at) if isinstance(at, slice) else [super(Samples, self).__getitem__(i) for i in at]


class Peer:
    batches = []

    def place(self, inputs, labels):
        assert inputs == labels
        return labels

    def train(self, batch):
        clock.now += 2
        self.batches.append(batch)
        return 1.0


class Run(training.Run):
    def read(self):
        samples = Samples(range(int(sys.argv[3])))
        return (samples, samples), None


def slow_order(*arguments):
    clock.now += 100
    return order_of(*arguments)


clock, order_of = Clock(), sample_order.order_of
training.time, sample_order.order_of = clock, slow_order
print(json.dumps({**Run(Peer(), json.loads(sys.argv[2])).result(), "batches": Peer.batches}))
