// Exit codes of the program, part of its contract.
#pragma once

#include "runtime/base/error.h"

namespace trireme {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,    // while running
  kBadInput = 2,  // refused before step 1: command line, configuration, files
  kStopped = 75,  // early, with a checkpoint saved: run again to continue
};

constexpr ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kUnsupported:
      return ExitCode::kBadInput;
    case ErrorCode::kOutOfMemory:
    case ErrorCode::kCommunication:
    case ErrorCode::kRuntime:
    case ErrorCode::kNoProgress:
      break;
  }
  return ExitCode::kFailed;
}

}  // namespace trireme
