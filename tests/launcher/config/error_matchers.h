// Helpers for error messages.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace trireme {

/// The message of the Error that `call` throws; fails unless it has `code`.
template <class Call>
std::string error_message(Call&& call, ErrorCode code = ErrorCode::kInvalidInput) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

}  // namespace trireme
