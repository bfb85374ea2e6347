#!/usr/bin/env python3
"""digits_make.py > digits.bin - writes the embedded digits from scikit-learn's copy.

Needs scikit-learn.  Its load_digits() holds the test part of the UCI set "Optical Recognition of
Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998; doi 10.24432/C50P49; CC BY 4.0).
"""
import sys

from sklearn.datasets import load_digits

digits = load_digits()
for label, pixels in zip(digits.target, digits.data):
    sys.stdout.buffer.write(bytes([label, *map(int, pixels)]))
