#include "textflag.h"

// func plainBlocks(p *byte, n int) int
TEXT ·plainBlocks(SB), NOSPLIT, $0-24
	MOVQ         p+0(FP), SI
	MOVQ         n+8(FP), CX
	XORQ         AX, AX
	MOVQ         $0x2020202020202020, DX
	VMOVQ        DX, X0
	VPBROADCASTQ X0, Y0
	MOVQ         $0x2222222222222222, DX
	VMOVQ        DX, X1
	VPBROADCASTQ X1, Y1
	MOVQ         $0x5C5C5C5C5C5C5C5C, DX
	VMOVQ        DX, X2
	VPBROADCASTQ X2, Y2

loop:
	LEAQ     64(AX), DX
	CMPQ     DX, CX
	JGT      done
	VMOVDQU  (SI)(AX*1), Y3
	VMOVDQU  32(SI)(AX*1), Y4
	VPCMPGTB Y3, Y0, Y5          // as signed numbers, control characters and bytes beyond ASCII are less than a space
	VPCMPGTB Y4, Y0, Y6
	VPCMPEQB Y3, Y1, Y7
	VPCMPEQB Y4, Y1, Y8
	VPCMPEQB Y3, Y2, Y9
	VPCMPEQB Y4, Y2, Y10
	VPOR     Y5, Y7, Y5
	VPOR     Y6, Y8, Y6
	VPOR     Y5, Y9, Y5
	VPOR     Y6, Y10, Y6
	VPOR     Y5, Y6, Y7
	VPTEST   Y7, Y7
	JNZ      done
	MOVQ     DX, AX
	JMP      loop

done:
	VZEROUPPER
	MOVQ AX, ret+16(FP)
	RET
