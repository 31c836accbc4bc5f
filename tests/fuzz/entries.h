// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The entries that libFuzzer and the corpus test call with one input. An entry returns for any
// bytes; an exception that leaves it is a bug.
#pragma once

#include <string>

namespace ddpbench::fuzz {

// Reads a report. A refusal must be a ConfigError that names file and place. Otherwise the report
// is shown, written, and read again with the same result. Returns whether it was a report.
bool report_entry(const std::string& input);

// Applies a configuration file to options, whose JSON must give the same options again, or refuses
// it. An input that begins with '-' holds flags, one on each line; with 'D', DDPBENCH_ variables.
// Returns whether it was accepted.
bool config_entry(const std::string& input);

// Reads a network, or refuses it with a ConfigError that names the file. Returns whether it was
// read; then its layers follow their inputs, and can be fused.
bool network_entry(const std::string& input);

// Cuts what a client sends to the rendezvous store into frames and requests, and executes them. The
// first byte tells in what pieces the rest arrives. Returns whether a request was answered with
// success, and none ended the connection.
bool store_entry(const std::string& input);

// Decodes an image file as a photograph and as a map of labels, or refuses it with a ConfigError
// that names the file. Returns whether it was one of them.
bool image_entry(const std::string& input);

}  // namespace ddpbench::fuzz
