// The safetensors format, both directions.
#pragma once

#include "runtime/checkpoint/safetensors_reader.h"
#include "runtime/checkpoint/safetensors_writer.h"
