"""A run of `gemel train` by a peer, on a data set of pictures, in Gemel's order of samples."""
import time

import measured

# What a peer's loop has; another value is a gap.
PLAIN = {"lr-schedule": "constant", "accumulate": 1, "clip-norm": 0, "label-smoothing": 0, "freeze-backbone": False, "freeze-norm": False, "recompute": "none"}


class Run:
    def __init__(self, peer, spec):
        """@param peer  as measured.py has it"""
        import pictures

        for key, value in PLAIN.items():
            measured.refuse_unless(key, spec.get(key, value), [value])
        self.peer, self.spec, self.pictures = peer, spec, pictures
        self.training, self.validation = pictures.read(spec)
        self.samples_ms, self.losses = [], []

    def result(self):
        """What `gemel train` leaves in summary.json, but for what only it has."""
        self.begin = self.end = None
        last = {}
        for epoch in range(self.spec["epochs"] or 1 << 30):
            last = self.epoch(epoch)
            if self.is_done():
                break
        return {"status": "ok", "seconds": self.end - self.begin, "measured_unix_s": (self.begin, self.end), "model": self.spec["model"], "batch_size": self.spec["batch-size"],
                "steps": len(self.samples_ms), "samples_ms": self.samples_ms, "losses": self.losses, "last_epoch": last}

    def is_done(self):
        return bool(self.spec["steps"]) and len(self.samples_ms) >= self.spec["steps"]

    def epoch(self, epoch):
        begin, samples, sum_of_losses = time.perf_counter(), 0, 0.0
        for inputs, labels in self.batches(*self.training, self.pictures.order_of(self.spec, len(self.training[1]), epoch)):
            before = time.perf_counter()
            self.losses.append(self.peer.train(self.peer.place(inputs, labels)))
            self.samples_ms.append(1e3 * (time.perf_counter() - before))
            self.end = time.time()
            self.begin = self.begin or self.end  # behind the first step, as Gemel's
            samples += len(labels)
            sum_of_losses += self.losses[-1] * len(labels)
            if self.is_done():
                break
        seconds = time.perf_counter() - begin
        out = {"epoch": epoch + 1, "seconds": seconds, "train_loss": sum_of_losses / samples, "samples_per_s": samples / seconds}
        is_last = self.is_done() or epoch + 1 == self.spec["epochs"]
        every = self.spec["eval-every"]
        if self.validation and every and (is_last or (epoch + 1) % every == 0):
            out["val_accuracy"] = self.accuracy()
        return out

    def accuracy(self):
        right = 0
        for inputs, labels in self.batches(*self.validation, range(len(self.validation[1]))):
            right += int((self.peer.infer(self.peer.place(inputs, labels)).argmax(1) == labels).sum())
        return right / len(self.validation[1])

    def batches(self, inputs, labels, order):
        size = self.spec["batch-size"]
        for begin in range(0, len(order), size):
            mine = order[begin : begin + size]
            mine = slice(mine.start, mine.stop) if isinstance(mine, range) else mine
            yield inputs[mine], labels[mine]
