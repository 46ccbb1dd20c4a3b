"""A run of `gemel train` by a peer, on a data set of pictures or texts, in Gemel's order of samples."""
import time

import measured

# What a peer's loop has, besides measured.PLAIN of each step; another value is a gap.
PLAIN = {"lr-schedule": "constant", "warmup": "0", "length-buckets": "off"}


def require(spec):
    measured.require_plain(spec, PLAIN)
    if spec.get("parallel"):
        measured.refuse_unless("eval-every of several ranks", spec["eval-every"], [0])


def ratio(a, b):
    return a / b if b else 0.0


class Run:
    def __init__(self, peer, spec):
        """@param peer  as measured.py has it"""
        self.peer, self.spec = peer, spec
        self.training, self.validation = self.read()
        self.samples_ms, self.losses = [], []

    def read(self):
        if "texts" in self.spec:
            import texts

            return texts.read(self.spec)
        import pictures

        return pictures.read(self.spec)

    def result(self):
        """What `gemel train` leaves in summary.json, but for what only it has."""
        self.begin = self.end = None
        orders = self.orders()
        epochs = [self.epoch(epoch, order, epoch + 1 == len(orders)) for epoch, order in enumerate(orders)]
        return {"status": "ok", "seconds": self.end - self.begin, "measured_unix_s": (self.begin, self.end), "model": self.spec["model"],
                "batch_size": self.spec["batch-size"], "steps": len(self.samples_ms), "samples_ms": self.samples_ms, "losses": self.losses, "epochs": epochs, "last_epoch": epochs[-1]}

    def is_done(self):
        return bool(self.spec["steps"]) and len(self.samples_ms) >= self.spec["steps"]

    def orders(self):
        """Of the samples in each epoch, made before any clock begins: a shuffle in Python is no framework's time."""
        import sample_order

        size, steps = len(self.training[1]), self.spec["steps"]
        epochs = -(-steps // -(-size // self.spec["batch-size"])) if steps else self.spec["epochs"]
        return [sample_order.order_of(self.spec, size, epoch) for epoch in range(epochs)]

    def epoch(self, epoch, order, is_last):
        """A step's time is from the end of the one before it to its own, as Gemel's: with what it waits for its batch."""
        samples, sum_of_losses = 0, 0.0
        begin = last = time.perf_counter()
        for inputs, labels in self.batches(*self.training, order):
            self.losses.append(self.peer.train(self.peer.place(inputs, labels)))
            now, self.end = time.perf_counter(), time.time()
            self.samples_ms.append(1e3 * (now - last))
            last = now
            self.begin = self.begin or self.end  # behind the first step, as Gemel's
            samples += len(labels)
            sum_of_losses += self.losses[-1] * len(labels)
            if self.is_done():
                break
        seconds = time.perf_counter() - begin
        out = {"epoch": epoch + 1, "seconds": seconds, "train_loss": sum_of_losses / samples, "samples_per_s": samples / seconds}
        every = self.spec["eval-every"]
        if self.validation and every and (is_last or (epoch + 1) % every == 0):
            out.update(self.judged())
        return out

    def judged(self):
        """Metrics of validation as Gemel has them: accuracy, and of two classes precision, recall and F1, where the second one is to be found."""
        guesses, labels = [], self.validation[1].tolist()
        for inputs, of_batch in self.batches(*self.validation, range(len(labels))):
            outputs = self.peer.infer(self.peer.place(inputs, of_batch))
            guesses += outputs.argmax(1).tolist()
        pairs = list(zip(guesses, labels))
        out = {"val_accuracy": sum(guess == label for guess, label in pairs) / len(pairs)}
        if outputs.shape[1] == 2:
            found, false_alarms, missed = pairs.count((1, 1)), pairs.count((1, 0)), pairs.count((0, 1))
            out["val_precision"], out["val_recall"] = ratio(found, found + false_alarms), ratio(found, found + missed)
            out["val_f1"] = ratio(2 * found, 2 * found + false_alarms + missed)
        return out

    def batches(self, inputs, labels, order):
        size = self.spec["batch-size"]
        for begin in range(0, len(order), size):
            mine = order[begin : begin + size]
            mine = slice(mine.start, mine.stop) if isinstance(mine, range) else mine
            yield inputs[mine], labels[mine]
