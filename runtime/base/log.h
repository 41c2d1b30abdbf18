// Messages to the person running the job, through spdlog's default logger, which the launcher configures.
// Libraries log rarely: a slower path taken, a destructor that failed.
#pragma once

#include <string_view>

namespace trireme {

void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message) noexcept;

}  // namespace trireme
