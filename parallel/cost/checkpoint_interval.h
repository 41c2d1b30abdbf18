// How often a run should save its state, from what a save takes and how often the run is interrupted.
#pragma once

namespace trireme {

/// Seconds of work between two saves: sqrt(2 save mtbf), J. W. Young, "A first order approximation to the
/// optimum checkpoint interval", CACM 17 (1974). Both in seconds and above 0.
double young_interval_s(double save_s, double mtbf_s);

/// The same with the terms of higher order of J. T. Daly, "A higher order estimate of the optimum checkpoint
/// interval for restart dumps", FGCS 22 (2006): better where a save is not short beside the
/// time between interruptions.
double daly_interval_s(double save_s, double mtbf_s);

struct InterruptedWork {
  double work_s = 0;      // without saves and interruptions
  double interval_s = 0;  // of work between saves
  double save_s = 0;
  double restart_s = 0;  // from an interruption until the work goes on
  double mtbf_s = 0;     // between interruptions, on average
};

/// Expected seconds until the work is done where interruptions come at random, also while state is saved or a
/// restart is under way: the complete model of the same paper.
double expected_run_s(const InterruptedWork& run);

}  // namespace trireme
