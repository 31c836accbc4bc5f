// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// JPEG and PNG files for the tests of this folder, made by the libraries themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ddpbench::data {

// A JPEG file of [height, width, channels] bytes: 1 grey, 3 red, green, blue; 4 inks.
std::string jpeg_file(int height, int width, std::span<const std::uint8_t> pixels, int channels);

// The kinds of PNG files; each pixel has so many bytes.
enum class PngKind { grey, rgb, rgba, palette, grey16 };
std::string png_file(int height, int width, std::span<const std::uint8_t> pixels, PngKind kind);

// A folder as that of PASCAL VOC 2012, of six photographs to train and to test, whose left part is
// of class 1 and red: `put` gets the name below the folder and the contents of each file.
void make_voc(const std::function<void(const std::string&, const std::string&)>& put);

// Colour i of the palette that png_file writes: red, green and blue.
std::uint8_t palette_colour(int i, int channel);

}  // namespace ddpbench::data
