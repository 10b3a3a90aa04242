#include "textflag.h"

// The text of a block is in Y3 and Y4.

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

// Which bytes may follow a backslash, except u: those for which the entries at the low and the high half of the byte
// have a bit in common.
DATA ·escapeLow+0(SB)/8, $0x00040008000D0000
DATA ·escapeLow+8(SB)/8, $0x0104000200000000
GLOBL ·escapeLow(SB), RODATA|NOPTR, $16
DATA ·escapeHigh+0(SB)/8, $0x0804020000010000
DATA ·escapeHigh+8(SB)/8, $0x0000000000000000
GLOBL ·escapeHigh(SB), RODATA|NOPTR, $16

// The tables of John Keiser and Daniel Lemire, Validating UTF-8 In Less Than One Instruction Per Byte, section 6.1
// (https://arxiv.org/abs/2010.03090): each bit stands for a fault in two bytes that follow each other. It is a fault if
// the entries at both halves of the first byte and at the high half of the second one have it in common.
DATA ·firstHigh+0(SB)/8, $0x0202020202020202
DATA ·firstHigh+8(SB)/8, $0x4915012180808080
GLOBL ·firstHigh(SB), RODATA|NOPTR, $16
DATA ·firstLow+0(SB)/8, $0xCBCBCB8B8383A3E7
DATA ·firstLow+8(SB)/8, $0xCBCBDBCBCBCBCBCB
GLOBL ·firstLow(SB), RODATA|NOPTR, $16
DATA ·secondHigh+0(SB)/8, $0x0101010101010101
DATA ·secondHigh+8(SB)/8, $0x01010101BABAAEE6
GLOBL ·secondHigh(SB), RODATA|NOPTR, $16

// func textBlocks(p *byte, i, n int) int
TEXT ·textBlocks(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ i+8(FP), AX
	MOVQ n+16(FP), CX
	SUBQ $64, CX
	FILL($0x2020202020202020, DX, X0, Y0)
	FILL($0x2222222222222222, DX, X1, Y1)
	FILL($0x5C5C5C5C5C5C5C5C, DX, X2, Y2)
	FILL($0x0F0F0F0F0F0F0F0F, DX, X13, Y13)
	FILL($0x6060606060606060, DX, X14, Y14)  // 0xE0-0x80: the lead of three bytes
	FILL($0x7070707070707070, DX, X15, Y15)  // 0xF0-0x80: the lead of four
	MOVQ $0xAAAAAAAAAAAAAAAA, DI             // every other bit

loop:
	CMPQ     AX, CX
	JGT      done
	VMOVDQU  (SI)(AX*1), Y3
	VMOVDQU  32(SI)(AX*1), Y4
	VPCMPGTB Y3, Y0, Y5          // as signed numbers, control characters and bytes beyond ASCII are less than a space
	VPCMPGTB Y4, Y0, Y6
	VPCMPEQB Y3, Y1, Y7
	VPCMPEQB Y4, Y1, Y8
	VPCMPEQB Y3, Y2, Y9
	VPCMPEQB Y4, Y2, Y10
	VPOR     Y5, Y7, Y11
	VPOR     Y6, Y8, Y12
	VPOR     Y9, Y11, Y11
	VPOR     Y10, Y12, Y12
	VPOR     Y11, Y12, Y11
	VPTEST   Y11, Y11
	JNZ      marked
	ADDQ     $64, AX
	JMP      loop

marked:
	MASK(Y5, Y6, R10)  // controls, and bytes beyond ASCII
	MASK(Y7, Y8, R8)   // quotes
	MASK(Y9, Y10, R9)  // backslashes
	MASK(Y3, Y4, R11)  // bytes beyond ASCII
	XORQ  R12, R12     // escaped bytes
	XORQ  R13, R13     // the backslashes that escape them
	TESTQ R9, R9
	JZ    unescaped

	// As in simdjson (Langdale and Lemire, Parsing Gigabytes of JSON per Second, section 3.1.1): a subtraction carries
	// through each run of backslashes.
	LEAQ (R9)(R9*1), R12
	ORQ  DI, R12
	SUBQ R9, R12
	XORQ DI, R12
	MOVQ R12, R13
	ANDQ R9, R13
	XORQ R9, R12

	// The shuffle gives 0 for a byte beyond ASCII.
	VBROADCASTI128 ·escapeLow(SB), Y5
	VBROADCASTI128 ·escapeHigh(SB), Y6
	VPXOR          Y7, Y7, Y7
	VPSHUFB        Y3, Y5, Y8
	VPSRLW         $4, Y3, Y9
	VPAND          Y13, Y9, Y9
	VPSHUFB        Y9, Y6, Y9
	VPAND          Y8, Y9, Y9
	VPCMPEQB       Y7, Y9, Y9              // bytes that may not be escaped, or are u
	VPSHUFB        Y4, Y5, Y8
	VPSRLW         $4, Y4, Y10
	VPAND          Y13, Y10, Y10
	VPSHUFB        Y10, Y6, Y10
	VPAND          Y8, Y10, Y10
	VPCMPEQB       Y7, Y10, Y10
	MASK(Y9, Y10, R9)
	ANDQ           R12, R9                // escaped bytes that may not be
	MOVQ           R12, DX
	NOTQ           DX
	ANDQ           DX, R8                 // quotes that end the string
	ORQ            R9, R8

unescaped:
	MOVQ  R11, DX
	NOTQ  DX
	ANDQ  DX, R10
	ORQ   R10, R8  // and controls: where text ends
	TESTQ R11, R11
	JNZ   beyond
	TESTQ R8, R8
	JNZ   stop
	TESTQ R13, R13
	JLT   cut
	ADDQ  $64, AX
	JMP   loop

cut:           // an escape that goes on in the next block begins that one
	ADDQ $63, AX // a jump, because a sum would have to wait for the masks
	JMP  loop

beyond:
	VBROADCASTI128 ·firstHigh(SB), Y5
	VBROADCASTI128 ·firstLow(SB), Y6
	VBROADCASTI128 ·secondHigh(SB), Y7
	FILL($0x8080808080808080, DX, X12, Y12)
	FAULTS(Y3, 0, Y10)
	FAULTS(Y4, 32, Y11)
	VPOR           Y10, Y11, Y10
	VPTEST         Y10, Y10
	JZ             wellFormed
	ORQ            R11, R8                  // the caller finds out where the fault is
	JMP            stop

wellFormed:
	TESTQ R8, R8
	JNZ   stop

	// A character that goes on in the next block begins that one.
	TESTQ R13, R13
	JLT   cut
	CMPB  63(SI)(AX*1), $0xC0
	JCC   cut
	CMPB  62(SI)(AX*1), $0xE0
	JCC   cut2
	CMPB  61(SI)(AX*1), $0xF0
	JCC   cut3
	ADDQ  $64, AX
	JMP   loop

cut2:
	ADDQ $62, AX
	JMP  loop

cut3:
	ADDQ $61, AX
	JMP  loop

stop:
	BSFQ R8, DX
	ADDQ DX, AX
	BTQ  DX, R12  // an escape is returned from its backslash on
	SBBQ $0, AX

done:
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET
