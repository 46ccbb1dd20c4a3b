#!/usr/bin/env python3
"""Horovod as a peer of `gemel study`: PyTorch's models with Horovod's optimizer, on the ranks that horovod.run starts."""
import measured
import pytorch_peer
import ranks


def versions(spec):
    import horovod

    return {"horovod": horovod.__version__, **pytorch_peer.versions(spec)}


def rank_main(spec, cores, is_check):
    ranks.end_with_parent()
    import horovod.torch as hvd

    hvd.init()
    measured.take_cores(ranks.cores_of(hvd.rank(), hvd.size(), cores))

    class Horovod(ranks.sharded(pytorch_peer.PyTorch, hvd.rank(), hvd.size())):
        def __init__(self, spec):
            super().__init__(spec)
            hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
            self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=self.model.named_parameters())

    return measured.result_of(spec, Horovod, versions, is_check)


def run_ranks(spec, cores, is_check):
    import horovod

    ranks.require(spec)
    return ranks.joined(horovod.run(rank_main, args=(spec, cores, is_check), np=spec["np"]))


if __name__ == "__main__":
    measured.run(pytorch_peer.PyTorch, versions, styles=("horovod",), ranks=run_ranks)
