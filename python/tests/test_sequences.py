"""FASTQ and text with header lines, with the results of the command, from Python."""

from __future__ import annotations

from pathlib import Path

import outcore
import pytest

READS = b"@b\nAC\n+\n@+\n@a x\nACGT\n+\nIIII\n@c\nAC\n+\n##\n"


def test_reads_are_sorted_and_deduplicated_by_their_parts(tmp_path: Path) -> None:
    src, dst = tmp_path / "a.fq", tmp_path / "b.fq"
    src.write_bytes(READS)
    outcore.sort(src, dst)
    assert dst.read_bytes() == b"@a x\nACGT\n+\nIIII\n@b\nAC\n+\n@+\n@c\nAC\n+\n##\n"
    report = outcore.unique(src, dst, by="sequence", force=True)
    assert (report.records, report.unit) == (2, "read")
    assert dst.read_bytes() == b"@b\nAC\n+\n@+\n@a x\nACGT\n+\nIIII\n"
    other = tmp_path / "reads"
    other.write_bytes(READS)
    outcore.head(other, dst, count=1, fastq=True, force=True)
    assert dst.read_bytes() == b"@b\nAC\n+\n@+\n"
    src.write_bytes(READS[:-2])
    with pytest.raises(outcore.CorruptError, match="record 3"):
        outcore.sort(src, dst, force=True)


def test_header_lines_stay_in_front(tmp_path: Path) -> None:
    src, dst = tmp_path / "a.vcf", tmp_path / "b.vcf"
    src.write_bytes(b"##x\n#CHROM\n2\n1\n")
    for options in ({"comment": "#"}, {"comment": ["##", "#CHROM"]}, {"header_lines": 2}):
        outcore.sort(src, dst, force=True, **options)
        assert dst.read_bytes() == b"##x\n#CHROM\n1\n2\n"
    with pytest.raises(outcore.UsageError, match="header_lines"):
        outcore.sort(src, dst, csv=True, by="1", header_lines=1, force=True)
