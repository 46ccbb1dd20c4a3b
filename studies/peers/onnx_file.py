"""The model of a spec as an ONNX file beside Gemel's weights, written once by PyTorch's exporter."""
import os
import warnings


def path(spec):
    out = f"{spec['start']}/model.onnx"
    if not os.path.exists(out):
        write(spec, out)
    return out


def write(spec, out):
    import numpy as np
    import torch

    import picture_models

    model = picture_models.started(spec).eval()
    batch = torch.from_numpy(np.load(f"{spec['start']}/images.npy"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(model, (batch,), dynamo=True, verbose=False)
    program.save(out + ".new")
    os.rename(out + ".new", out)
