#!/usr/bin/env python3
"""ONNX Runtime as a peer of `gemel study`, for inference: the CPU's provider with its default graph optimisations. It reads the model as PyTorch exports it."""
import os

import measured


def versions(spec):
    import onnxruntime

    return {"onnxruntime": onnxruntime.__version__}


class OnnxRuntime:
    device = "cpu"

    def __init__(self, spec):
        import onnxruntime

        import onnx_file

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self.session = onnxruntime.InferenceSession(onnx_file.path(spec), options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def place(self, inputs, labels):
        return inputs

    def infer(self, inputs):
        return self.session.run(None, {self.input: inputs})[0]


if __name__ == "__main__":
    measured.run(OnnxRuntime, versions, modes=("default",), takes_training=False)
