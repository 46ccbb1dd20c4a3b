"""safetensors files, read and written with numpy alone."""
import json
import struct

import numpy as np

NAMES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}


def save(path, tensors):
    """tensors: name -> numpy array."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    arrays = [(name, np.asarray(a, order="C")) for name, a in tensors.items()]
    for name, array in arrays:
        dtype = next(key for key, value in NAMES.items() if array.dtype == value)
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, array in arrays:
            out.write(array.tobytes())


def load(path):
    """Name -> numpy array. The arrays are the file itself, mapped into memory: who keeps none of them keeps no copy. What is written to them does not reach it."""
    data = np.asarray(np.memmap(path, np.uint8, "c"))
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size].tobytes()), data[8 + size :]
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out[name] = body[begin:end].view(NAMES[entry["dtype"]]).reshape(entry["shape"])
    return out
