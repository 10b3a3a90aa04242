// The macros of the kernels that use AVX2. The text of a block is in Y3 and Y4.

#define FILL(value, scalar, x, y) \
	MOVQ         value, scalar \
	VMOVQ        scalar, x     \
	VPBROADCASTQ x, y

// MASK sets one bit in to for each byte of low and high with a high bit.
#define MASK(low, high, to) \
	VPMOVMSKB low, to   \
	VPMOVMSKB high, DX  \
	SHLQ      $32, DX   \
	ORQ       DX, to

// FAULTS sets to a vector that is not zero if the 32 bytes in text, which are at at, end or are in a character that is
// not well formed. Y13 has the low halves of bytes, Y5 to Y7 the three tables.
#define FAULTS(text, at, to) \
	VMOVDQU  (at-1)(SI)(AX*1), Y8 \
	VPSRLW   $4, Y8, Y9           \
	VPAND    Y13, Y9, Y9          \
	VPSHUFB  Y9, Y5, Y9           \
	VPAND    Y13, Y8, Y8          \
	VPSHUFB  Y8, Y6, Y8           \
	VPAND    Y8, Y9, Y9           \
	VPSRLW   $4, text, Y8         \
	VPAND    Y13, Y8, Y8          \
	VPSHUFB  Y8, Y7, Y8           \
	VPAND    Y8, Y9, Y9           \
	VMOVDQU  (at-2)(SI)(AX*1), Y8 \
	VPSUBUSB Y14, Y8, Y8          \
	VMOVDQU  (at-3)(SI)(AX*1), to \
	VPSUBUSB Y15, to, to          \
	VPOR     Y8, to, to           \
	VPAND    Y12, to, to          \
	VPXOR    Y9, to, to

// UNESCAPABLE sets the bytes of Y9 and Y10 for which those in Y3 and Y4 may not follow a backslash, or are u. Y13 has the low
// halves of bytes. The shuffle gives 0 for a byte beyond ASCII.
#define UNESCAPABLE \
	VBROADCASTI128 ·escapeLow(SB), Y5 \
	VBROADCASTI128 ·escapeHigh(SB), Y6 \
	VPXOR          Y7, Y7, Y7 \
	VPSHUFB        Y3, Y5, Y8 \
	VPSRLW         $4, Y3, Y9 \
	VPAND          Y13, Y9, Y9 \
	VPSHUFB        Y9, Y6, Y9 \
	VPAND          Y8, Y9, Y9 \
	VPCMPEQB       Y7, Y9, Y9 \
	VPSHUFB        Y4, Y5, Y8 \
	VPSRLW         $4, Y4, Y10 \
	VPAND          Y13, Y10, Y10 \
	VPSHUFB        Y10, Y6, Y10 \
	VPAND          Y8, Y10, Y10 \
	VPCMPEQB       Y7, Y10, Y10

// TABLES loads tables and a constant for FAULTS.
#define TABLES \
	VBROADCASTI128 ·firstHigh(SB), Y5  \
	VBROADCASTI128 ·firstLow(SB), Y6   \
	VBROADCASTI128 ·secondHigh(SB), Y7 \
	FILL($0x8080808080808080, DX, X12, Y12)

// BIT sets one bit in to for each byte of the text that has the bit 1<<(7-shift).
#define BIT(shift, to) \
	VPSLLW $shift, Y3, Y8 \
	VPSLLW $shift, Y4, Y9 \
	MASK(Y8, Y9, to)
