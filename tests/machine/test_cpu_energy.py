"""The energy of CPU packages, from a folder like Linux's /sys/class/powercap."""

from pathlib import Path

import pytest

from machine.cpu_energy import CpuEnergy


def add_domain(folder: Path, domain: str, name: str, microjoules: int, highest: int = 1_000_000_000) -> None:
    (folder / domain).mkdir()
    for file, content in (("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", highest)):
        (folder / domain / file).write_text(f"{content}\n")


def spend(folder: Path, domain: str, microjoules: int) -> None:
    (folder / domain / "energy_uj").write_text(f"{microjoules}\n")


def test_packages_are_summed_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    add_domain(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    add_domain(tmp_path, "intel-rapl:1", "package-1", 7_000_000)
    parts = [("intel-rapl:0:0", "core"), ("intel-rapl:0:1", "dram"), ("intel-rapl:2", "psys")]
    parts.append(("intel-rapl-mmio:0", "package-0"))
    for domain, name in parts:
        add_domain(tmp_path, domain, name, 0)
    energy = CpuEnergy(tmp_path)
    assert energy.joules() == 0.0
    for domain, _ in parts:
        spend(tmp_path, domain, 900_000_000)
    spend(tmp_path, "intel-rapl:0", 15_000_000)
    spend(tmp_path, "intel-rapl:1", 7_500_000)
    assert energy.joules() == 10.5
    assert energy.joules() == 0.0


def test_a_counter_that_restarts_is_continued(tmp_path: Path) -> None:
    add_domain(tmp_path, "intel-rapl:0", "package-0", 261_000_000, highest=262_000_000)
    energy = CpuEnergy(tmp_path)
    spend(tmp_path, "intel-rapl:0", 3_000_000)
    assert energy.joules() == 4.0


def test_without_counters_nothing_is_known(tmp_path: Path) -> None:
    assert CpuEnergy(tmp_path / "missing").joules() is None
    add_domain(tmp_path, "intel-rapl:0:0", "core", 5)
    assert CpuEnergy(tmp_path).joules() is None


@pytest.mark.parametrize("damage", ["energy_uj", "max_energy_range_uj", "name"])
def test_a_package_that_cannot_be_read_leaves_no_partial_sum(tmp_path: Path, damage: str) -> None:
    """A folder in place of the file fails for the superuser too."""
    add_domain(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    add_domain(tmp_path, "intel-rapl:1", "package-1", 7_000_000)
    (tmp_path / "intel-rapl:1" / damage).unlink()
    (tmp_path / "intel-rapl:1" / damage).mkdir()
    energy = CpuEnergy(tmp_path)
    spend(tmp_path, "intel-rapl:0", 15_000_000)
    assert energy.joules() is None


def test_a_reading_that_fails_is_made_up_by_the_next_one(tmp_path: Path) -> None:
    add_domain(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    energy = CpuEnergy(tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("")
    assert energy.joules() is None
    spend(tmp_path, "intel-rapl:0", 8_000_000)
    assert energy.joules() == 3.0
