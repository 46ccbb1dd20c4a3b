// How a study was measured: what a report says of the machine, the programs, the commands, and of what may be wrong with its figures.
#pragma once
#include "frontends/study/report/page.h"
#include "frontends/study/report/results.h"

namespace gemel::study {

/// Cases whose first steps took longer than the rest, or whose processes grew slower or faster from block to block.
ListItems doubts_of(const Study& study, const Results& results);
/// Date, machine, and of each program its device and versions; values that differ between processes stand beside each other.
Grid machine_grid(const Study& study, const Results& results);
/// The first process of each case of Gemel's as a command for a shell, below a comment with the case's name.
Listing commands_of(const Study& study, const Results& results);
/// How far each peer is from Gemel, and how far five steps take the loss.
Grid agreement_grid(const Results& results);
/// How the report keeps the rules of T. Hoefler, R. Belli, Scientific benchmarking of parallel computing systems, 2015.
ListItems rules();

}  // namespace gemel::study
