#!/usr/bin/env python3
"""OpenVINO as a peer of `gemel study`, for inference in float32 on the CPU. It reads the model as PyTorch exports it to ONNX."""
import os

import measured


def versions(spec):
    import openvino

    return {"openvino": openvino.__version__}


class OpenVino:
    device = "cpu"

    def __init__(self, spec):
        import openvino

        import onnx_file

        threads = len(os.sched_getaffinity(0))
        # float32 also where the processor has bfloat16, by which it would not be the same computation.
        self.model = openvino.Core().compile_model(onnx_file.path(spec), "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})

    def place(self, inputs, labels):
        return inputs

    def infer(self, inputs):
        return self.model([inputs])[0]


if __name__ == "__main__":
    measured.run(OpenVino, versions, modes=("default",), takes_training=False)
