// Optimal checkpoint intervals, from the time of a save and the rate of interruptions.
#pragma once

namespace trireme {

/// Seconds of work between two saves: sqrt(2 save mtbf), J. W. Young, "A first order approximation to the
/// optimum checkpoint interval", CACM 17 (1974). Both in seconds and above 0.
double young_interval_s(double save_s, double mtbf_s);

/// The same with the higher-order terms of J. T. Daly, "A higher order estimate of the optimum checkpoint
/// interval for restart dumps", FGCS 22 (2006). More accurate unless a save is short compared with the time
/// between interruptions.
double daly_interval_s(double save_s, double mtbf_s);

struct InterruptedWork {
  double work_s = 0;      // without saves and interruptions
  double interval_s = 0;  // work between saves
  double save_s = 0;
  double restart_s = 0;  // from an interruption until work continues
  double mtbf_s = 0;     // mean time between interruptions
};

/// Expected seconds until the work is done, with interruptions at random times, including during saves and
/// restarts: the complete model of the same paper.
double expected_run_s(const InterruptedWork& run);

}  // namespace trireme
