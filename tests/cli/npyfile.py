"""npyfile.py - .npy files from plain Python, right ones and wrong ones, without NumPy."""
import struct

CODES = {"f2": "e", "f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q",
         "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}


def pack(descr, values):
    """The bytes of `values` as elements of `descr`."""
    order = ">" if descr[0] == ">" else "<"
    return struct.pack(f"{order}{len(values)}{CODES[descr[1:]]}", *values)


def frame(header, data, version=1):
    """A file with this header text, padded as NumPy pads it."""
    width = 2 if version == 1 else 4
    text = header.encode()
    end = (8 + width + len(text) + 1 + 63) // 64 * 64
    length = end - 8 - width
    return (b"\x93NUMPY" + bytes([version, 0]) + length.to_bytes(width, "little")
            + text.ljust(length - 1) + b"\n" + data)


def array(descr, shape, values, fortran=False, version=1):
    """A good file. `values` are in the order of the file."""
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    return frame(header, pack(descr, values), version)


def read(path):
    """(descr, shape, values) of a version 1 file."""
    content = path.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00", content[:8]
    length = int.from_bytes(content[8:10], "little")
    header = eval(content[10:10 + length], {"__builtins__": {}})  # a literal this project wrote
    descr = header["descr"]
    data = content[10 + length:]
    if descr.startswith("<U"):
        width = 4 * int(descr[2:])
        texts = (data[i:i + width].decode("utf-32-le") for i in range(0, len(data), width))
        return descr, header["shape"], tuple(text.rstrip("\0") for text in texts)
    count = len(data) // struct.calcsize(CODES[descr[1:]])
    return descr, header["shape"], struct.unpack(f"<{count}{CODES[descr[1:]]}", data)
