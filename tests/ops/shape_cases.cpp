// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

Conv2dDesc oblong(Conv2dDesc desc) {
  desc.window.kernel_w = 5, desc.window.pad_w = 2, desc.window.stride_w = 2;
  return desc;
}
Conv2dDesc grouped(Conv2dDesc desc, std::int64_t groups) {
  desc.groups = groups;
  return desc;
}
Conv2dDesc dilated(Conv2dDesc desc, std::int64_t h, std::int64_t w) {
  desc.dilation = {h, w};
  return desc;
}
Conv2dDesc uneven(Conv2dDesc desc, std::int64_t more_h, std::int64_t more_w) {
  desc.window.more_h = more_h, desc.window.more_w = more_w;
  return desc;
}
Conv2dDesc flat(Conv2dDesc desc) {
  desc.window.stride_h = 3, desc.window.pad_w = 2;
  return desc;
}

}  // namespace

Conv2dDesc conv(Shape input, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                std::int64_t pad) {
  return {.input = TensorLayout::plain(std::move(input)),
          .out_channels = out,
          .window = square_window(kernel, stride, pad)};
}

std::vector<ConvCase> conv_cases() {
  return {
      {"OneSampleOneChannel", conv({1, 1, 9, 9}, 8, 3, 1, 1)},
      {"NetworkFirstLayer", first_layer(conv({4, 1, 28, 28}, 32, 3, 1, 1))},
      {"NetworkFirstLayerWithRelu", first_layer(with_relu(conv({2, 1, 28, 28}, 32, 3, 1, 1)))},
      {"NetworkSecondLayer", conv({3, 32, 14, 14}, 64, 3, 1, 1)},
      {"NetworkSecondLayerWithRelu", with_relu(conv({2, 32, 14, 14}, 64, 3, 1, 1))},
      {"ThreeChannels", conv({2, 3, 11, 7}, 16, 3, 1, 1)},
      {"ChannelsBelowABlock", conv({3, 5, 7, 9}, 17, 3, 1, 1)},
      {"ChannelsBelowABlockWithRelu", with_relu(conv({3, 5, 7, 9}, 17, 3, 1, 1))},
      {"ChannelsAboveABlock", conv({2, 33, 5, 5}, 5, 3)},
      {"StrideWithoutPadding", conv({2, 16, 13, 13}, 16, 3, 2)},
      {"LargeKernel", conv({2, 6, 14, 14}, 16, 5)},
      {"LargeKernelPadded", with_relu(conv({2, 1, 28, 28}, 6, 5, 1, 2))},
      {"WinogradOnOddMaps", with_relu(conv({3, 16, 9, 11}, 48, 3, 1, 1))},
      {"WinogradOnItsSmallestMap", conv({1, 32, 7, 7}, 16, 3, 1, 1)},
      {"WinogradWithoutPadding", conv({2, 32, 10, 9}, 32, 3)},
      {"OneByOne", conv({2, 16, 6, 5}, 24, 1)},
      {"OneOutputChannel", with_relu(conv({2, 4, 5, 5}, 1, 3))},
      {"KernelAsLargeAsTheMap", conv({2, 4, 5, 5}, 3, 5)},
      {"WithoutBias", without_bias(conv({2, 16, 8, 8}, 16, 3, 1, 1))},
      {"WithReluAndNoBias", without_bias(with_relu(conv({2, 3, 6, 5}, 4, 3, 1, 1)))},
      {"Oblong", with_relu(oblong(conv({2, 8, 9, 12}, 16, 3, 1, 1)))},
      {"TwoGroups", grouped(conv({2, 32, 7, 9}, 48, 3, 1, 1), 2)},
      {"GroupsOfFourChannels", with_relu(grouped(conv({2, 32, 8, 7}, 32, 3, 2, 1), 8))},
      {"GroupsOfOddSizes", grouped(conv({3, 15, 6, 5}, 9, 3, 1, 1), 3)},
      {"GroupsOfOneByOne", first_layer(grouped(conv({2, 6, 5, 5}, 4, 1), 2))},
      {"Depthwise", without_bias(grouped(conv({2, 24, 9, 8}, 24, 3, 1, 1), 24))},
      {"DepthwiseWithTwoOutputsEach", with_relu(grouped(conv({1, 5, 6, 6}, 10, 3), 5))},
      {"Dilated", with_relu(dilated(conv({2, 16, 11, 9}, 32, 3, 1, 2), 2, 2))},
      {"DilatedInOneDirection", dilated(conv({2, 3, 9, 12}, 8, 3, 1, 1), 1, 3)},
      {"DilatedWithStrideAndNoPadding", dilated(conv({2, 8, 15, 13}, 16, 3, 2), 3, 2)},
      {"DilatedAcrossTheWholeMap", first_layer(dilated(conv({1, 4, 9, 9}, 5, 3), 4, 4))},
      {"DilatedKernelOfOneElement", dilated(conv({2, 5, 6, 4}, 7, 1), 3, 5)},
      {"DilatedGroups", with_relu(dilated(grouped(conv({2, 32, 9, 9}, 64, 3, 1, 2), 4), 2, 2))},
      // Without groups and dilation some backends have own kernels for these.
      {"DilatedOneChannel", first_layer(dilated(conv({2, 1, 10, 10}, 16, 3, 1, 2), 2, 2))},
      {"UnevenSides", uneven(conv({2, 5, 9, 8}, 16, 3, 2, 1), -1, 1)},
      {"UnevenSidesOfWinograd", with_relu(uneven(conv({2, 32, 10, 9}, 32, 3), 2, 1))},
      {"SameOfAnEvenKernel", uneven(conv({2, 16, 7, 6}, 16, 4, 1, 1), 1, 1)},
      {"UnevenSidesDilated", with_relu(uneven(dilated(conv({3, 6, 9, 9}, 7, 3), 2, 2), 3, 1))},
      {"UnevenSidesOfOneChannel", first_layer(with_relu(uneven(conv({3, 1, 8, 7}, 8, 3), 1, 2)))},
      {"DepthwiseColours", first_layer(grouped(conv({2, 3, 8, 8}, 6, 3, 1, 1), 3))},
  };
}

std::vector<ConvCase> few_channel_conv_cases() {
  return {
      {"FewOnePixel", conv({1, 1, 3, 3}, 1, 3)},
      {"FewFirstLayer", first_layer(conv({3, 1, 28, 28}, 32, 3, 1, 1))},
      {"FewFirstLayerWithRelu", first_layer(with_relu(conv({3, 1, 28, 28}, 32, 3, 1, 1)))},
      {"FewWithInputGradient", with_relu(conv({2, 1, 10, 10}, 16, 3, 1, 1))},
      {"FewWithoutPadding", first_layer(with_relu(conv({5, 1, 9, 7}, 12, 3)))},
      {"FewOddOutputs", first_layer(with_relu(conv({2, 1, 7, 11}, 7, 3, 1, 1)))},
      {"FewOddOutputsAndInputGradient", with_relu(conv({2, 1, 6, 5}, 5, 3, 1, 1))},
      {"FewWithoutBias", first_layer(without_bias(with_relu(conv({2, 1, 8, 8}, 16, 3, 1, 1))))},
      {"FewStrideTwo", first_layer(conv({3, 1, 13, 15}, 20, 3, 2, 1))},
      {"FewStrideTwoWithoutPadding", first_layer(with_relu(conv({1, 1, 12, 10}, 8, 3, 2)))},
      {"FewFlat", first_layer(with_relu(flat(conv({2, 1, 11, 6}, 8, 3, 1, 1))))},
      {"FewManyOutputs", first_layer(with_relu(conv({1, 1, 5, 6}, 300, 3, 1, 1)))},
      {"FewManySmallImages", first_layer(with_relu(conv({301, 1, 4, 4}, 8, 3, 1, 1)))},
      {"FewColours", first_layer(with_relu(conv({3, 3, 9, 10}, 24, 3, 1, 1)))},
      {"FewColoursOddOutputs", first_layer(conv({2, 3, 7, 5}, 9, 3))},
      {"FewLargeKernel", first_layer(with_relu(conv({2, 1, 28, 28}, 6, 5, 1, 2)))},
      {"FewLargeKernelWithoutPadding", first_layer(conv({3, 1, 9, 8}, 16, 5))},
  };
}

std::vector<NormCase> norm_cases() {
  const auto norm = [](Shape input, bool add, bool relu, bool affine = true) {
    return BatchNorm2dDesc{.input = TensorLayout::plain(std::move(input)),
                           .affine = affine,
                           .fuse_add = add,
                           .fuse_relu = relu};
  };
  BatchNorm2dDesc slow = norm({3, 6, 4, 5}, false, false);
  slow.eps = 0.1;
  slow.momentum = 0.01;
  return {
      {"TwoValuesAChannel", norm({1, 3, 2, 1}, false, false)},
      {"OneChannel", norm({2, 1, 5, 3}, false, true)},
      {"OnePixel", norm({7, 33, 1, 1}, false, false)},
      {"OnePixelWithAllFused", norm({9, 16, 1, 1}, true, true)},
      {"ABlock", norm({2, 16, 6, 6}, false, true)},
      {"HalfABlock", norm({3, 8, 5, 5}, true, true)},
      {"ChannelsBelowABlock", norm({3, 5, 7, 9}, false, false)},
      {"ChannelsAboveABlock", norm({2, 17, 4, 7}, true, true)},
      {"ManyChannels", norm({2, 130, 3, 3}, true, true)},
      {"SumWithoutRelu", norm({2, 20, 5, 4}, true, false)},
      {"WithoutParameters", norm({3, 12, 5, 5}, false, true, false)},
      {"WithoutParametersAndWithAllFused", norm({3, 18, 3, 5}, true, true, false)},
      {"OtherNumbers", slow},
      {"LongMaps", norm({2, 24, 61, 63}, false, true)},
      {"ManyChannelsOfLongMaps", norm({2, 150, 13, 21}, true, false)},
      {"ManySamples", norm({130, 4, 3, 3}, false, true)},
      {"SeveralTilesOfVectors", norm({2, 264, 13, 11}, true, true)},
  };
}

std::vector<PoolCase> pool_cases() {
  return {
      {"NetworkFirstPool", {2, 32, 28, 28}, 2, 2, 0},
      {"NetworkSecondPool", {2, 64, 14, 14}, 2, 2, 0},
      {"OneSampleOneChannel", {1, 1, 4, 4}, 2, 2, 0},
      {"OddHeightAndWidth", {3, 16, 7, 5}, 2, 2, 0},
      {"OddHeight", {2, 8, 9, 4}, 2, 2, 0},
      {"OneRowOfOddWidth", {3, 24, 2, 5}, 2, 2, 0},
      {"OneWindow", {5, 8, 2, 2}, 2, 2, 0},
      {"ManyWindows", {3, 24, 63, 61}, 2, 2, 0},
      {"ManyChannels", {2, 520, 3, 4}, 2, 2, 0},
      {"LargerWindowsSideBySide", {2, 8, 8, 7}, 3, 3, 0},
      {"ChannelsBelowABlock", {2, 5, 7, 9}, 2, 2, 0},
      {"ChannelsAboveABlock", {2, 33, 6, 6}, 2, 2, 0},
      {"OverlappingPadded", {2, 5, 9, 8}, 3, 2, 1},
      {"OverlappingPaddedWholeBlocks", {2, 16, 9, 8}, 3, 2, 1},
      {"OverlappingByStrideOne", {2, 17, 5, 5}, 2, 1, 0},
      {"WindowsWithGaps", {2, 16, 9, 9}, 2, 3, 0},
      {"HalfPadded", {2, 8, 5, 5}, 2, 2, 1},
      {"CutToThreeRowsAndColumns", {2, 16, 7, 7}, 5, 2, 2},
      {"GlobalPool", {2, 16, 7, 7}, 7, 7, 0},
      {"WindowOfMoreElementsThanAByteCounts", {2, 8, 17, 17}, 17, 1, 0},
      {"LargestWindowThatAByteCounts", {1, 2, 18, 16}, 15, 1, 0},
      {"CeilOddMaps", {2, 16, 7, 5}, 2, 2, 0, true},
      {"CeilPadded", {2, 8, 6, 9}, 3, 2, 1, true},
      {"CeilWithoutALastWindow", {2, 8, 2, 5}, 2, 3, 1, true},
      {"CeilLargerThanTheMap", {2, 5, 2, 4}, 3, 2, 0, true},
      {"UnevenSides", {2, 16, 6, 7}, 3, 2, 0, false, 1},
      {"UnevenSidesAndCeil", {3, 5, 7, 6}, 3, 2, 1, true, -1},
  };
}

AvgPool2dDesc AverageCase::desc(const TensorLayout& layout) const {
  return {.input = layout,
          .window = {kernel, kernel, stride, stride, pad, pad, more, more, ceil_mode},
          .count_include_pad = count_include_pad};
}

std::vector<AverageCase> average_cases() {
  return {
      {"OneSampleOneChannel", {1, 1, 4, 4}, 2, 2, 0},
      {"Halving", {2, 32, 8, 6}, 2, 2, 0},
      {"OddMaps", {3, 16, 7, 5}, 2, 2, 0},
      {"Overlapping", {2, 8, 9, 8}, 3, 1, 0},
      {"OverlappingPadded", {2, 5, 9, 8}, 3, 2, 1},
      {"OverlappingPaddedMapOnly", {2, 5, 9, 8}, 3, 2, 1, false},
      {"PaddedWholeBlocks", {2, 16, 7, 7}, 3, 1, 1},
      {"PaddedWholeBlocksMapOnly", {2, 16, 7, 7}, 3, 1, 1, false},
      {"HalfPadded", {2, 8, 5, 5}, 2, 2, 1},
      {"HalfPaddedMapOnly", {2, 8, 5, 5}, 2, 2, 1, false},
      {"WindowsWithGaps", {2, 17, 9, 9}, 2, 3, 0},
      {"WholeMap", {2, 33, 7, 7}, 7, 7, 0},
      {"KernelOfOneElement", {2, 3, 4, 5}, 1, 1, 0},
      {"Long", {4, 48, 20, 19}, 3, 2, 1},
      {"CeilOddMaps", {2, 16, 7, 5}, 2, 2, 0, true, true},
      {"CeilPadded", {2, 8, 6, 9}, 3, 2, 1, true, true},
      {"CeilPaddedMapOnly", {2, 8, 6, 9}, 3, 2, 1, false, true},
      {"UnevenSides", {2, 16, 6, 7}, 3, 2, 0, true, false, 1},
      {"UnevenSidesAndCeil", {3, 5, 7, 6}, 3, 2, 1, true, true, -1},
  };
}

std::vector<AdaptiveCase> adaptive_cases() {
  return {
      {"Global", {2, 64, 7, 7}, 1, 1},
      {"GlobalOfOddChannels", {3, 33, 5, 4}, 1, 1},
      {"GlobalOfOnePixel", {2, 16, 1, 1}, 1, 1},
      {"OneSampleOneChannel", {1, 1, 3, 3}, 1, 1},
      {"WindowsSideBySide", {2, 16, 12, 6}, 6, 3},
      {"WindowsThatOverlap", {2, 8, 7, 10}, 3, 4},
      {"WindowsThatOverlapOfOddChannels", {2, 5, 13, 13}, 6, 6},
      {"SameSize", {2, 9, 6, 7}, 6, 7},
      {"Larger", {2, 24, 3, 4}, 7, 5},
      {"OneRow", {2, 8, 9, 9}, 1, 9},
      {"Long", {4, 48, 21, 17}, 6, 6},
  };
}

std::vector<UpsampleCase> upsample_cases() {
  return {
      {"OnePixelToAMap", {2, 32, 1, 1}, 5, 7},
      {"EightTimes", {2, 21, 5, 5}, 40, 40},
      {"OddSizes", {3, 5, 3, 4}, 10, 7},
      {"OddSizesOfWholeBlocks", {1, 16, 9, 5}, 17, 23},
      {"SameSize", {2, 9, 6, 7}, 6, 7},
      {"Smaller", {2, 8, 11, 9}, 4, 2},
      {"ToOnePixel", {2, 3, 7, 6}, 1, 1},
      {"OneRow", {2, 8, 1, 9}, 6, 9},
      {"OneSampleOneChannel", {1, 1, 2, 2}, 3, 5},
      {"Long", {2, 24, 13, 13}, 65, 65},
  };
}

std::vector<ConcatCase> concat_cases() {
  return {
      {"OneInput", {{2, 5, 3, 4}}},
      {"TwoOfOneChannel", {{2, 1, 3, 3}, {2, 1, 3, 3}}},
      {"WholeBlocks", {{2, 16, 5, 7}, {2, 32, 5, 7}, {2, 16, 5, 7}}},
      {"LastBelowABlock", {{3, 32, 4, 4}, {3, 5, 4, 4}}},
      {"FirstBelowABlock", {{2, 5, 4, 3}, {2, 16, 4, 3}}},
      {"HalfBlocks", {{2, 24, 3, 3}, {2, 8, 3, 3}}},
      {"FourBranches", {{2, 64, 6, 6}, {2, 48, 6, 6}, {2, 33, 6, 6}, {2, 1, 6, 6}}},
      {"OnePixel", {{4, 7, 1, 1}, {4, 9, 1, 1}}},
      {"Features", {{3, 7}, {3, 1}, {3, 20}}},
      {"Long", {{2, 48, 19, 23}, {2, 16, 19, 23}}},
  };
}

LinearDesc linear(TensorLayout input, std::int64_t out) {
  return {.input = std::move(input), .out_features = out};
}
LinearDesc linear(Shape input, std::int64_t out) {
  return linear(TensorLayout::plain(std::move(input)), out);
}

std::vector<LinearCase> linear_cases() {
  return {
      {"OneSample", linear({1, 7}, 3)},
      {"OneSampleWholeVectors", linear({1, 8}, 8)},
      {"OneFeature", linear({5, 1}, 1)},
      {"OneByOne", with_relu(linear({1, 1}, 1))},
      {"NetworkFirstLayer", with_relu(linear({8, 64, 7, 7}, 128))},
      {"OddMaps", with_relu(linear({3, 6, 4, 5}, 9))},
      {"OnePixel", linear({4, 5, 1, 1}, 3)},
      {"NetworkLastLayer", linear({33, 128}, 10)},
      {"OddSizes", linear({17, 45}, 33)},
      {"OddSizesWithRelu", with_relu(linear({17, 45}, 33))},
      {"WithoutBias", without_bias(linear({4, 9}, 6))},
      {"ReluWithoutBias", without_bias(with_relu(linear({4, 20}, 6)))},
      {"FirstLayer", first_layer(linear({4, 20}, 6))},
      {"FirstLayerOfImages", first_layer(with_relu(linear({3, 1, 6, 6}, 16)))},
      {"MoreRowsThanAChunk", with_relu(linear({1200, 4}, 37))},
  };
}

}  // namespace ddpbench::ops::testing
